/* What test_foreign.c plants and how it looks at what is printed: running the program on pipes and on a terminal, the bytes
 * that a terminal would obey, and JSON texts of which one string is replaced. */
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "engine/base/bytes.h"
#include "engine/cli/cli_tables.h"
#include "engine/config/keys.h"

/* A window's title, colour as ESC, as C1 in UTF-8 and as a byte; backspace, return, DEL, and an override of direction. */
#define EVIL                                                                                                           \
    "\033]0;PWNED\007\033[31m\302\233"                                                                                 \
    "31m\233"                                                                                                          \
    "31m\b\r\177\342\200\256"
/* The same within a JSON string, where control characters below 32 may not stand as they are. */
#define EVIL_JSON                                                                                                      \
    "\\u001b]0;PWNED\\u0007\\u001b[31m\\u009b31m\302\233"                                                              \
    "31m\233"                                                                                                          \
    "31m\\b\\r\\u007f\\u202e"

static char program[4096];
static struct bytes printed;

/* ---- running the program ---- */

enum { ARGS = 48 };

/* All that comes from fd until its end; when nothing has come for so long, press() does something, and without it the test fails. */
static inline void take_printed(int fd, int wait_ms, void (*press)(int fd))
{
    char part[4096];
    printed.count = 0;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, wait_ms) == 0) {
            if (!press) fail_msg("no end");
            press(fd);
            continue;
        }
        ssize_t count = read(fd, part, sizeof part);
        if (count <= 0) break;
        assert_true(bytes_append(&printed, part, (size_t)count));
    }
    assert_true(bytes_append(&printed, "", 1));
    printed.count--;
}

/* Standard output and standard error of `zerolab ARGS` in `printed`; returns the exit status. */
static inline int run(const char *const *args)
{
    int out[2], status;
    char *argv[ARGS + 2] = {program};
    for (int a = 0; args[a]; a++) argv[a + 1] = (char *)args[a];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(out[1], 1), dup2(out[1], 2);
        execv(program, argv);
        _exit(127);
    }
    close(out[1]);
    take_printed(out[0], 60000, NULL);
    close(out[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 127) fail_msg("%s %s: died, %d", args[0], args[1], status);
    return WEXITSTATUS(status);
}

static inline void describe(const char *const *args)
{
    fputs("# zerolab", stderr);
    for (; *args; args++) fputs(" ", stderr), fputs(strstr(*args, "PWNED") ? "(evil)" : *args, stderr);
    fputs("\n", stderr);
}

/* The first thing that a terminal would obey; NULL: none. */
static inline const char *control_in(const struct bytes *bytes)
{
    static char what[80];
    const unsigned char *at = bytes->at;
    for (size_t i = 0; i < bytes->count; i++) {
        const unsigned char c = at[i], next = i + 1 < bytes->count ? at[i + 1] : 0,
                            third = i + 2 < bytes->count ? at[i + 2] : 0;
        const int more = c < 0x80                ? 0
                         : c >= 0xc2 && c < 0xe0 ? 1
                         : c >= 0xe0 && c < 0xf0 ? 2
                         : c >= 0xf0 && c < 0xf5 ? 3
                                                 : -1;
        bool bad = (c < ' ' && c != '\n' && c != '\t') || c == 0x7f || more < 0 || (c == 0xc2 && next < 0xa0);
        bad |= c == 0xe2 && next == 0x80 && ((third >= 0x8e && third <= 0x8f) || (third >= 0xa8 && third <= 0xae));
        bad |= c == 0xe2 && next == 0x81 && third >= 0xa6 && third <= 0xa9;
        for (int m = 1; m <= more && !bad; m++)
            bad = i + (size_t)m >= bytes->count || (at[i + (size_t)m] & 0xc0) != 0x80;
        snprintf(what, sizeof what, "byte %zu is %02x, then %02x %02x, after \"%.*s\"", i, c, next, third,
                 i < 20 ? (int)i : 20, at + (i < 20 ? 0 : i - 20));
        if (bad) return what;
        i += (size_t)(more > 0 ? more : 0);
    }
    return NULL;
}

static int tried, bad_runs;

static inline int clean(const char *const *args)
{
    const int status = run(args);
    const char *control = control_in(&printed);
    tried++;
    if (control) describe(args), fprintf(stderr, "#   %s\n", control), bad_runs++;
    return status;
}

#define CLEAN(...) clean((const char *const[]){__VA_ARGS__, NULL})

/* The same, and its answer is JSON that has the string whole. */
static inline void clean_json(const char *const *args)
{
    clean(args);
    cJSON *json = cJSON_Parse((const char *)printed.at);
    if (!json) describe(args), fprintf(stderr, "#   no JSON: %.200s\n", (const char *)printed.at), bad_runs++;
    if (!strstr((const char *)printed.at, "\\u001b]0;PWNED\\u0007"))
        describe(args), fputs("#   it is not there\n", stderr), bad_runs++;
    cJSON_Delete(json);
}

#define CLEAN_JSON(...) clean_json((const char *const[]){__VA_ARGS__, NULL})

static inline void hold(void)
{
    if (bad_runs) fail_msg("%d of %d runs printed a control character", bad_runs, tried);
    assert_true(tried > 0);
    if (getenv("V")) fprintf(stderr, "# %d runs\n", tried);
}

/* Frames as ANSI text, and what a terminal is sent, have our own sequences: these are taken out first. */
static inline void drop_own_sequences(void)
{
    size_t kept = 0;
    uint8_t *at = printed.at;
    for (size_t i = 0; i < printed.count; i++) {
        const uint8_t next = i + 1 < printed.count ? at[i + 1] : 0;
        if (at[i] == '\r') continue;
        if (at[i] == 033 && next == '[') {
            for (i += 2; i < printed.count && (at[i] < '@' || at[i] > '~');) i++;
        } else if (at[i] == 033 && next == '(') i += 2;
        else if (at[i] == 033 && (next == '=' || next == '>' || next == '7' || next == '8')) i++;
        else at[kept++] = at[i];
    }
    printed.count = kept;
}

/* ---- live screens ---- */

static const char *to_press; /* that are still to be pressed */
static pid_t screen;
static int quiet;

/* The screen has been quiet: the next key, or the end once what was planted is there. What never comes is given up. */
static inline void press(int fd)
{
    enum { GIVES_UP = 100 };
    if (!printed.count && quiet++ < GIVES_UP) return;
    if (*to_press && write(fd, to_press, 1) == 1) to_press++;
    else if (memmem(printed.at, printed.count, "PWNED", 5) || quiet++ >= GIVES_UP) kill(screen, SIGTERM);
}

/* Presses a key whenever the screen has been quiet, and ends the program after the last. */
static inline void clean_screen(const char *pressed, const char *const *args)
{
    int terminal;
    char *argv[ARGS + 2] = {program};
    const struct winsize size = {.ws_row = 45, .ws_col = 150};
    for (int a = 0; args[a]; a++) argv[a + 1] = (char *)args[a];
    screen = forkpty(&terminal, NULL, NULL, &size);
    if (screen == 0) {
        execv(program, argv);
        _exit(127);
    }
    to_press = pressed;
    quiet = 0;
    take_printed(terminal, 150, press);
    close(terminal);
    assert_int_equal(waitpid(screen, NULL, 0), screen);
    const bool titled = memmem(printed.at, printed.count, "\033]", 2),
               there = memmem(printed.at, printed.count, "PWNED", 5);
    drop_own_sequences();
    const char *control = control_in(&printed);
    tried++;
    if (titled || control) describe(args), fprintf(stderr, "#   %s\n", titled ? "ESC ]" : control), bad_runs++;
    if (!there) describe(args), fputs("#   what was planted is not on the screen\n", stderr), bad_runs++;
}

#define CLEAN_SCREEN(keys, ...) clean_screen(keys, (const char *const[]){__VA_ARGS__, NULL})

/* ---- files ---- */

static inline void read_bytes(const char *path, struct bytes *bytes)
{
    char part[4096];
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is not there", path);
    *bytes = (struct bytes){0};
    for (size_t count; (count = fread(part, 1, sizeof part, file)) > 0;) assert_true(bytes_append(bytes, part, count));
    fclose(file);
}

static inline char *text_of(const char *path)
{
    struct bytes bytes;
    read_bytes(path, &bytes);
    assert_true(bytes_append(&bytes, "", 1));
    return (char *)bytes.at;
}

static inline void write_bytes(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static inline void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

/* One string of a JSON text. */
struct literal {
    size_t at, length;
};

/* The next string at or after `from` that has not stood before it; keys only if asked. False: there is none. */
static inline bool next_literal(const char *text, size_t from, bool keys, struct literal *found)
{
    for (const char *at = text + from; (at = strchr(at, '"'));) {
        const char *end = at + 1;
        while (*end && *end != '"') end += *end == '\\' && end[1] ? 2 : 1;
        if (!*end) return false;
        *found = (struct literal){(size_t)(at - text), (size_t)(end + 1 - at)};
        const bool is_key = end[1 + strspn(end + 1, " \t\n")] == ':';
        const char *first = memmem(text, found->at + found->length, at, found->length);
        at = end + 1;
        if ((keys || !is_key) && first == text + found->at) return true;
    }
    return false;
}

static inline char *planted(const char *text, struct literal literal)
{
    char *out;
    assert_true(asprintf(&out, "%.*s\"x" EVIL_JSON "\"%s", (int)literal.at, text, text + literal.at + literal.length) >
                0);
    return out;
}

/* Calls look() with each text in which one string is the planted one. */
static inline void plant_each(const char *text, bool keys, void (*look)(const char *text))
{
    struct literal literal;
    int strings = 0;
    for (size_t from = 0; next_literal(text, from, keys, &literal); from = literal.at + literal.length, strings++) {
        char *with = planted(text, literal);
        look(with);
        free(with);
    }
    assert_true(strings > 0);
}

/* ---- what is read: made once by the program itself ---- */

static const char config[] = "{\"train_micro_batch_size_per_gpu\": 2, \"data\": {\"sequence_length\": 32}, "
                             "\"topology\": {\"ranks\": 1, \"ranks_as\": "
                             "\"threads\"}, \"checkpoint\": {\"path\": \"elsewhere\", \"at_end\": false}, \"model\": "
                             "{\"name\": \"custom\", \"layers\": 1, "
                             "\"hidden\": 16, \"heads\": 1, \"context\": 32, \"vocabulary\": 256}, \"optimizer\": "
                             "{\"type\": \"AdamW\", \"params\": "
                             "{\"lr\": 1e-3}}, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {}}}";

#define EVIL_NAME "evil-" EVIL

static char root[64];

static inline int set_up(void **state)
{
    (void)state;
    static char folder[] = "/tmp/zerolab-foreign-XXXXXX";
    const char *built = getenv("ZEROLAB") ? getenv("ZEROLAB") : "build/release/zerolab";
    if (!realpath(built, program) || !mkdtemp(folder) || chdir(folder) != 0) return -1;
    snprintf(root, sizeof root, "%s", folder);
    setenv("HOME", folder, 1), setenv("XDG_RUNTIME_DIR", folder, 1), setenv("XDG_STATE_HOME", folder, 1);
    setenv("TERM", "xterm", 1), setenv("LC_ALL", "C.UTF-8", 1);
    setenv("ZEROLAB_CONFIG", "config.json", 1); /* where none is named: the program's own takes longer */
    signal(SIGPIPE, SIG_IGN);
    write_text("config.json", config);
    write_text("text.txt", "a text to be encoded");
    write_text("trace.json", "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}]}");
    write_text("vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2}");
    write_text("merges.txt", "a b\n");
    mkdir("learners", 0755);
    if (CLEAN("train", "config.json", "--headless", "--steps", "1", "--trace", "run.zlt", "--set",
              "checkpoint.path=saves", "--set", "checkpoint.at_end=true"))
        return -1;
    if (CLEAN("checkpoint", "export", "saves", "-o", "weights.safetensors")) return -1;
    return CLEAN("lab", "new", "first") || CLEAN("lab", "new", "./" EVIL_NAME);
}

static inline int remove_all(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return chdir("/") || system(command);
}
