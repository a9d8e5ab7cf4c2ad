/* Gathers learners' progress files from a folder for a teacher: a shared folder, or state folders or single files
 * copied from laptops. It only reads files, so a class needs no server.
 *
 *     anna/.local/state/zerolab/labs/zero-1.json     is anna's, and so are
 *     anna/zerolab/labs/zero-1.json   anna/zero-1.json   anna-zero-1.json */
#pragma once

#include <time.h>

#include "engine/lab/progress.h"

struct class_lab {
    char learner[64], lab[LAB_FOLDER_MAX];
    char *path;          /* relative to the folder */
    time_t changed;
    struct lab_progress progress;
};
struct class_damaged { char *path; char why[160]; };

/* Sorted by learner, then newest first; one entry per learner and lab. */
struct class {
    int count, room, damaged_count, damaged_room;
    struct class_lab *labs;
    struct class_damaged *damaged;
    bool cut; /* the folder has more files than were read */
};

/* STATUS_INPUT: the folder cannot be read. */
int class_gather(struct class *class, const char *folder, struct error *err);
void class_release(struct class *class);
