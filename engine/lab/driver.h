/* Carries out the actions of a lab: turns them into commands, one at a time, and reads each result from the trace. It
 * does no I/O: the caller sends the commands.
 *
 *     driver_begin(&driver, &step->before);
 *     on every new record: while (driver_tick(&driver, &scene) == DRIVER_SENDS) send driver.line */
#pragma once

#include "engine/lab/lab.h"

/* What driver_tick() asks of its caller. KEEPS: store the value of driver->kept now. */
enum driver_says { DRIVER_WAITS, DRIVER_SENDS, DRIVER_GOES, DRIVER_KEEPS, DRIVER_DONE, DRIVER_STUCK };

struct lab_driver {
    const struct lab_actions *actions;
    int at;                /* index of the present action */
    const struct lab_action *kept;
    int left;              /* LAB_RUN: steps still to train */
    bool sent;             /* `line` was sent ... */
    bool about_time;       /* ... and is a command about time: pause, op ... */
    bool relaunches, saves;/* ... and relaunches the engine, or writes a checkpoint */
    int part;              /* the run's part when it was sent */
    uint64_t saved_ns;     /* saved_ns of the run when it was sent */
    uint64_t failed_ns;    /* ... and failed_ns */
    bool was_short;        /* the run was out of memory, and `asked` is a live command: a pause is sent before it */
    bool pausing;          /* a pause has been sent before the command */
    uint64_t notices;      /* notices folded when it was sent */
    uint32_t from_step, from_attempt; /* last whole step then; attempt rises when a step is retried */
    char reason[256];      /* why the run waited when it was sent */
    char line[256];        /* DRIVER_SENDS: a command; DRIVER_GOES: what to find on the timeline */
    char asked[256];       /* the command that follows a pause */
    char why_stuck[256];
};

void driver_begin(struct lab_driver *driver, const struct lab_actions *actions);
enum driver_says driver_tick(struct lab_driver *driver, const struct lab_scene *scene);

/* Whether the run is paused, between two steps or before an operation, or is out of memory. */
bool run_waits(const struct run_model *model);
