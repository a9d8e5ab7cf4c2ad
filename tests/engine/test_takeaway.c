/* Stretches of steps as an HTML page, an asciicast and an animated SVG: each is read back by a small decoder, and must show at every
 * moment what `replay --frame --at step:STEP.OPERATION.begin|end` prints. Then hostile names, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/json.h"
#include "engine/trace/file.h"
#include "engine/trace/source.h"
#include "tests/support/effort.h"
#include "tui/app/app.h"
#include "tui/draw/animation.h"

enum { COLUMNS = 100, ROWS = 30, FRAMES_MAX = 400, CELL = 56 };

static const char example[] = "docs/example.zlt"; /* stage 3 from step 6 on */

static char *printed(struct app_frame_options options)
{
    struct error err;
    char *text = NULL;
    options.columns = COLUMNS;
    options.rows = ROWS;
    if (app_frame(&options, &text, &err)) fail_msg("%s", err.text);
    return text;
}

/* ---- a terminal: a character and its colours in each cell ---- */

static char terminal[ROWS][COLUMNS][CELL], look[CELL];
static int row, column;

static const char *obey(const char *at)
{
    const char *end = at + strcspn(at, "hlmJKH");
    int first = 0, second = 0;
    sscanf(at, "%d;%d", &first, &second);
    if (*end == 'm') snprintf(look, sizeof look, "%.*s", (int)(end - at), at);
    else if (*end == 'H') row = first - 1, column = second - 1;
    else if (*end == 'J') memset(terminal, 0, sizeof terminal);
    else if (*end == 'K') memset(terminal[row], 0, sizeof terminal[row]);
    else assert_non_null(strchr("hl", *end));
    if (!strcmp(look, "0")) *look = '\0';
    return end + 1;
}

static void put_on_terminal(const char *text)
{
    while (*text) {
        int bytes = 1;
        if (!strncmp(text, "\033[", 2)) {
            text = obey(text + 2);
        } else if (*text == '\n') {
            row++, column = 0, text++;
        } else {
            while ((text[bytes] & 0xc0) == 0x80) bytes++;
            assert_true(row < ROWS && column < COLUMNS && (unsigned char)*text >= ' ');
            snprintf(terminal[row][column++], CELL, "%.*s %.48s", bytes, text, look);
            text += bytes;
        }
    }
}

/* Blanks at the end of a row are not written by all. */
static void assert_shows(char expected[ROWS][COLUMNS][CELL], const char *what)
{
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            const char *is = terminal[y][x], *want = expected[y][x];
            if (strcmp(*is ? is : "  ", *want ? want : "  "))
                fail_msg("%s, row %d, column %d: '%s', not '%s'", what, y, x, is, want);
        }
}

/* ---- the page ---- */

struct page {
    cJSON *frames; /* the player's data */
    char *screen[FRAMES_MAX];
    char place[FRAMES_MAX][40]; /* each screen's moment as --at takes it; "": none */
    int count;
};

static int count_of(const char *text, const char *word)
{
    int count = 0;
    while ((text = strstr(text, word))) text += strlen(word), count++;
    return count;
}

static void assert_balanced(const char *text, const char *tag)
{
    char open[32], with[32], close[32];
    snprintf(open, sizeof open, "<%s>", tag);
    snprintf(with, sizeof with, "<%s ", tag);
    snprintf(close, sizeof close, "</%s>", tag);
    if (count_of(text, open) + count_of(text, with) != count_of(text, close)) fail_msg("<%s> is not balanced", tag);
}

static char *screen_text(cJSON *rows[ROWS])
{
    char *text = calloc(ROWS, COLUMNS * 4 + 2);
    for (int y = 0; y < ROWS; y++) {
        char *line = text + strlen(text), *end;
        for (const cJSON *at = rows[y] ? rows[y]->child : NULL; at; at = at->next->next)
            strcat(line, at->next->valuestring);
        for (end = line + strlen(line); end > line && end[-1] == ' ';) *--end = '\0';
        strcpy(end, "\n");
    }
    return text;
}

static void read_place(char place[40], const char *label)
{
    const char *op = strstr(label, "operation ");
    unsigned step, number;
    char word[8] = "";
    *place = '\0';
    if (sscanf(label, "Step %u,", &step) != 1 || !op || sscanf(op, "operation %u %7[a-z]", &number, word) != 2) return;
    snprintf(place, 40, "step:%u.%u.%s", step, number, !strcmp(word, "begins") ? "begin" : "end");
}

static void read_page(struct page *page, const char *html)
{
    static const char *const tags[] = {"html",    "head",    "title", "style",    "body",   "h1",
                                       "p",       "pre",     "div",   "button",   "select", "output",
                                       "details", "summary", "ol",    "noscript", "script"};
    static const char *const outside[] = {"://", " src=", " href=", "url(", "@import", "import(", "fetch(", "XMLHttp"};
    const char *data = strstr(html, "const frames = ");
    cJSON *rows[ROWS] = {0};
    *page = (struct page){0};
    for (size_t t = 0; t < sizeof tags / sizeof *tags; t++) assert_balanced(html, tags[t]);
    for (size_t o = 0; o < sizeof outside / sizeof *outside; o++) assert_null(strstr(html, outside[o]));
    assert_non_null(data);
    page->frames = cJSON_ParseWithOpts(data + strlen("const frames = "), &data, false);
    assert_non_null(page->frames);
    assert_true(!strncmp(data, ";\n", 2));
    for (const cJSON *frame = page->frames->child; frame->next; frame = frame->next) {
        for (cJSON *at = cJSON_GetArrayItem(frame, 2)->child; at; at = at->next->next) rows[at->valueint] = at->next;
        read_place(page->place[page->count], cJSON_GetArrayItem(frame, 1)->valuestring);
        page->screen[page->count++] = screen_text(rows);
    }
}

static void close_page(struct page *page)
{
    for (int f = 0; f < page->count; f++) free(page->screen[f]);
    cJSON_Delete(page->frames);
}

static double time_of(const struct page *page, int frame)
{
    return cJSON_GetArrayItem(cJSON_GetArrayItem(page->frames, frame), 0)->valuedouble;
}

/* Begins and ends of rank 0's operations in a step, counted in the trace. */
static int moments_of(uint32_t step)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    int count = 0;
    assert_int_equal(source_open_file(&source, example, &err), 0);
    while (source_next(source, &record) == SOURCE_RECORD)
        count += record.rank == 0 && ((record.kind == TRACE_OP_BEGIN && record.op_begin.step == step) ||
                                      (record.kind == TRACE_OP_END && record.op_end.step == step));
    source_close(source);
    return count;
}

static void a_page_shows_each_moment(const char *view)
{
    const struct app_frame_options options = {
        .file = example, .view = view, .steps = "7:8", .as = APP_AS_HTML, .look.no_color = true};
    struct page page;
    char *html = printed(options);
    int moments = 0;
    read_page(&page, html);
    for (int f = 0; f < page.count; f++) {
        const double until = time_of(&page, f + 1) - time_of(&page, f);
        assert_true(until >= 249 && until <= 2001);
        if (!*page.place[f]) continue;
        moments++;
        if (f % effort(8, 1, 1)) continue; /* each frame reads the trace anew */
        char *screen = printed((struct app_frame_options){.file = example, .view = view, .at = page.place[f]});
        assert_string_equal(page.screen[f], screen);
        free(screen);
    }
    assert_int_equal(moments, moments_of(7) + moments_of(8));
    assert_int_equal(page.count, moments + 3); /* before, between and after the steps */
    close_page(&page);
    free(html);
}

static void pages_show_each_moment(void **state)
{
    (void)state;
    a_page_shows_each_moment("whiteboard");
    a_page_shows_each_moment("timeline");
}

static void a_page_of_one_step_is_small(void **state)
{
    (void)state;
    char *html = printed((struct app_frame_options){.file = example, .view = "whiteboard", .as = APP_AS_HTML});
    struct page page;
    read_page(&page, html); /* without --steps: the last whole one */
    assert_non_null(strstr(html, "stage 3: whiteboard, step 8</h1>"));
    assert_int_equal(page.count, moments_of(8) + 2);
    assert_true(strlen(html) < 1000000);
    assert_null(strstr(html, "{{"));
    close_page(&page);
    free(html);
}

/* ---- the asciicast, with its colours ---- */

static void a_cast_shows_each_moment(void **state)
{
    struct app_frame_options options = {.file = example, .view = "whiteboard", .steps = "8", .as = APP_AS_HTML};
    static char shown[ROWS][COLUMNS][CELL];
    struct page page;
    (void)state;
    char *html = printed(options);
    options.as = APP_AS_CAST;
    char *cast = printed(options), *next = strchr(cast, '\n');
    read_page(&page, html);
    cJSON *head = cJSON_Parse(cast), *event = cJSON_Parse(next);
    assert_int_equal(cJSON_GetObjectItem(head, "version")->valueint, 2);
    assert_int_equal(cJSON_GetObjectItem(head, "width")->valueint, COLUMNS);
    assert_int_equal(cJSON_GetObjectItem(head, "height")->valueint, ROWS);
    for (int f = 0; f < page.count; f++) {
        while (event && cJSON_GetArrayItem(event, 0)->valuedouble * 1e3 <= time_of(&page, f) + 0.5) {
            assert_string_equal(cJSON_GetArrayItem(event, 1)->valuestring, "o");
            put_on_terminal(cJSON_GetArrayItem(event, 2)->valuestring);
            cJSON_Delete(event);
            event = (next = strchr(next + 1, '\n')) ? cJSON_Parse(next) : NULL;
        }
        if (!*page.place[f] || f % effort(8, 1, 1)) continue;
        char *screen = printed(
            (struct app_frame_options){.file = example, .view = "whiteboard", .at = page.place[f], .as = APP_AS_ANSI});
        memcpy(shown, terminal, sizeof shown);
        memset(terminal, 0, sizeof terminal);
        row = column = 0;
        put_on_terminal(screen);
        assert_shows(shown, page.place[f]);
        free(screen);
    }
    assert_non_null(event); /* the last one shows the cursor again */
    assert_non_null(strstr(cJSON_GetArrayItem(event, 2)->valuestring, "\033[?25h"));
    cJSON_Delete(event);
    cJSON_Delete(head);
    close_page(&page);
    free(cast);
    free(html);
}

static void a_row_that_changes_its_colour_alone_is_written(void **state)
{
    static const enum style styles[] = {STYLE_BAD, STYLE_GOOD, STYLE_GOOD};
    struct animation *animation = NULL;
    struct surface surface;
    (void)state;
    assert_true(surface_init(&surface, 10, 2, THEME_DEFAULT, false));
    for (int f = 0; f < 3; f++) {
        draw_text(canvas_of(&surface), 0, 1, styles[f], "text");
        if (!animation) animation = animation_begin(ANIMATION_CAST, &surface, "", "");
        assert_true(animation_add(animation, &surface, f, ""));
    }
    char *cast = animation_end(animation, 3);
    assert_non_null(strstr(cast, "\n[1.000, \"o\", \"\\u001b[2;1H"));
    assert_null(strstr(cast, "\n[2.000"));
    free(cast);
    surface_release(&surface);
}

/* ---- the animated SVG ---- */

/* Puts the texts on the terminal that are visible at a time; a line is one element, or opens a group. */
static void look_at_svg(const char *svg, double at_s)
{
    bool visible = true;
    memset(terminal, 0, sizeof terminal);
    for (const char *line = svg; line; line = (line = strchr(line, '\n')) ? line + 1 : NULL) {
        double begin, length;
        int x, y;
        if (sscanf(line,
                   "<g visibility=\"hidden\"><set attributeName=\"visibility\" to=\"visible\" "
                   "begin=\"time.begin+%lfs\" dur=\"%lfs\"/>",
                   &begin, &length) == 2)
            visible = at_s >= begin && at_s < begin + length;
        else if (sscanf(line, "<g><set attributeName=\"visibility\" to=\"hidden\" begin=\"time.begin\" dur=\"%lfs\"/>",
                        &length) == 1)
            visible = at_s >= length;
        else if (!strncmp(line, "<g>\n", 4)) visible = true;
        else if (visible && sscanf(line, "<text x=\"%d\" y=\"%d\"", &x, &y) == 2) {
            row = (y - 14) / 17;
            column = x / 9;
            for (line = strchr(line, '>') + 1; *line != '<';) {
                int bytes = *line == '&' ? (int)strcspn(line, ";") + 1 : 1;
                while ((line[bytes] & 0xc0) == 0x80) bytes++;
                const char *is = !strncmp(line, "&lt;", 4) ? "<" : !strncmp(line, "&amp;", 5) ? "&" : NULL;
                snprintf(terminal[row][column++], CELL, "%.*s ", is ? 1 : bytes, is ? is : line);
                line += bytes;
            }
        }
    }
}

static void an_svg_shows_each_moment(void **state)
{
    struct app_frame_options options = {
        .file = example, .view = "whiteboard", .steps = "8", .as = APP_AS_HTML, .look.no_color = true};
    static char shown[ROWS][COLUMNS][CELL];
    struct page page;
    (void)state;
    char *html = printed(options);
    options.as = APP_AS_SVG;
    char *svg = printed(options);
    read_page(&page, html);
    assert_balanced(svg, "g");
    assert_balanced(svg, "text");
    assert_int_equal(count_of(svg, "id=\"time\""), 1);
    for (int f = 0; f < page.count; f += effort(8, 1, 1)) {
        look_at_svg(svg, time_of(&page, f) / 1e3 + 0.01);
        memcpy(shown, terminal, sizeof shown);
        memset(terminal, 0, sizeof terminal);
        row = column = *look = 0;
        put_on_terminal(page.screen[f]);
        assert_shows(shown, "svg");
    }
    close_page(&page);
    free(svg);
    free(html);
}

/* ---- names of a hostile trace ---- */

static const char hostile[] = "</script><b>&\\\"'{{looks}}\033]0;x";

/* The example with other names of the model and of a unit. */
static void write_hostile(const char *path)
{
    struct source *source;
    struct trace_file *file;
    struct trace_record record;
    struct error err;
    char *text = NULL;
    assert_int_equal(source_open_file(&source, example, &err), 0);
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    while (source_next(source, &record) == SOURCE_RECORD) {
        if (record.kind == TRACE_RUN) {
            cJSON *run = cJSON_ParseWithLength(record.run.json.at, record.run.json.bytes),
                  *model = cJSON_GetObjectItem(run, "model");
            cJSON_ReplaceItemInObject(model, "name", cJSON_CreateString(hostile));
            cJSON_ReplaceItemInObject(cJSON_GetArrayItem(cJSON_GetObjectItem(model, "units"), 1), "name",
                                      cJSON_CreateString("</script><b>&\"'"));
            free(text);
            text = cJSON_PrintUnformatted(run);
            record.run.json = (struct trace_text){text, strlen(text)};
            cJSON_Delete(run);
        }
        assert_int_equal(trace_file_put(file, &record, &err), 0);
    }
    assert_int_equal(trace_file_close(file, &err), 0);
    source_close(source);
    free(text);
}

static void names_stay_text(void **state)
{
    char path[] = "/tmp/zerolab-test-takeaway-XXXXXX";
    struct page page;
    (void)state;
    assert_true(close(mkstemp(path)) == 0);
    write_hostile(path);
    struct app_frame_options options = {.file = path, .view = "whiteboard", .steps = "8", .as = APP_AS_HTML};
    char *html = printed(options);
    read_page(&page, html);
    assert_int_equal(count_of(html, "</script>"), 1);
    assert_null(strstr(html, "<b>"));
    assert_null(strchr(html, '\033'));
    assert_int_equal(count_of(html, "<h1>&lt;/script>&lt;b>&amp;\\\"'"), 1);
    assert_non_null(strstr(page.screen[1], "</scrip")); /* the unit's label */
    close_page(&page);
    free(html);
    options.as = APP_AS_CAST;
    char *cast = printed(options), *name = NULL;
    cJSON *head = cJSON_Parse(cast);
    json_get_text(head, "title");
    assert_non_null(name = strstr(json_get_text(head, "title"), "</script><b>&"));
    for (const char *line = cast; *line; line = strchr(line, '\n') + 1) {
        cJSON *event = cJSON_Parse(line);
        assert_non_null(event);
        cJSON_Delete(event);
    }
    cJSON_Delete(head);
    free(cast);
    options.as = APP_AS_SVG;
    char *svg = printed(options);
    assert_null(strstr(svg, "<b>"));
    assert_non_null(strstr(svg, "&lt;/scrip"));
    free(svg);
    assert_int_equal(unlink(path), 0);
}

/* ---- refusals ---- */

static void wrong_steps_are_refused(void **state)
{
    static const struct {
        const char *steps, *at;
        enum app_frame_as as;
        const char *said;
    } bad[] = {{"9", NULL, APP_AS_HTML, "this run ends after step 8; there is no step 9"},
               {"7:9", NULL, APP_AS_SVG, "this run ends after step 8; there is no step 9"},
               {"8:7", NULL, APP_AS_CAST, "--steps 8:7: give a step from 1 on, or the first and the last, like 3:5"},
               {"0", NULL, APP_AS_HTML, "--steps 0: give a step from 1 on, or the first and the last, like 3:5"},
               {"-1", NULL, APP_AS_HTML, "--steps -1: give a step from 1 on, or the first and the last, like 3:5"},
               {"1:", NULL, APP_AS_HTML, "--steps 1:: give a step from 1 on, or the first and the last, like 3:5"},
               {"7", NULL, APP_AS_TEXT, "--steps 7: text shows one screen; add --as html, cast or svg"},
               {"7", "end", APP_AS_HTML, "--steps and --at exclude each other; give one of them"},
               {NULL, "step:9", APP_AS_HTML, "this run ends after step 8; there is no step 9"}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error err;
        char *text = NULL;
        const struct app_frame_options options = {
            .file = example, .columns = 80, .rows = 24, .steps = bad[i].steps, .at = bad[i].at, .as = bad[i].as};
        assert_int_equal(app_frame(&options, &text, &err), STATUS_USAGE);
        assert_string_equal(err.text, bad[i].said);
        assert_null(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_show_each_moment),
        cmocka_unit_test(a_page_of_one_step_is_small),
        cmocka_unit_test(a_cast_shows_each_moment),
        cmocka_unit_test(an_svg_shows_each_moment),
        cmocka_unit_test(a_row_that_changes_its_colour_alone_is_written),
        cmocka_unit_test(names_stay_text),
        cmocka_unit_test(wrong_steps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
