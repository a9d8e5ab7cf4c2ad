/* Every step of every lab in labs/ as it stands on a screen: the question, all hints, what follows a wrong answer and a right
 * one; at 80x24 and 120x40, in UTF-8, ASCII and without colour. A text that does not fit fails. What is said at 80x24 is
 * kept in tests/golden/labs, a file for each lab; ACCEPT=1 accepts a change that is meant. New labs are found by themselves. */
#include "tests/support/lab_engine.h"

#include <dirent.h>
#include <locale.h>

#include "engine/lab/catalog.h"
#include "engine/lab/play.h"
#include "engine/trace/source.h"
#include "tui/draw/output.h"
#include "tui/screen/screen.h"

#define GOLDEN_FOLDER "tests/golden/labs"
#include "tests/support/golden.h"

enum { LABS_MAX = 64, TURNS_MAX = 10000 };

static const char *folders[LABS_MAX];
static int folder_count;

/* What may be said instead of the right answer is known only after the run: the first round, which says what is right,
 * collects it for the next ones. */
enum { ROUND_RIGHT, ROUND_WRONG, ROUNDS = ROUND_WRONG + LAB_CHOICES_MAX };

struct stage_hand {
    struct lab_engine engine;
    struct lab_play play;
    int round, handled;
    struct lab_value wrong[LAB_STEPS_MAX][LAB_WRONGS_MAX + 1]; /* the last: twice what is right */
    FILE *golden;
    int faults;
};

/* ---- a frame ------------------------------------------------------------------------------------------------------- */

static const struct size {
    int columns, rows;
} sizes[] = {{80, 24}, {120, 40}};
static const struct dress {
    enum theme theme;
    bool ascii;
} looks[] = {{THEME_DEFAULT, false}, {THEME_MONO, true}};

/* The screen, and where on it the lab's pane is. The caller frees. */
static char *frame_of(const struct stage_hand *hand, struct size size, struct dress look, bool told, bool presents,
                      struct rect *pane)
{
    struct lab_pane content = {0};
    struct view_state state = {
        .focus = VIEW_EVENTS, .live = true, .units = UNITS_GB, .speed = 1, .lab = &content, .lab_focus = true};
    const char *view = lab_play_step(&hand->play)->look;
    lab_pane_of(&content, &hand->play, presents);
    struct surface surface;
    if (view && view_named(view) >= 0) state.view = (enum view_id)view_named(view);
    state.cursor_ns = state.newest_ns = hand->engine.model->now_ns;
    const int top = view_header_rows(&state, size.columns), rows = size.rows - top - 1;
    *pane = lab_layout(&state, size.columns, rows).pane;
    if (told) state.lab_scroll = lab_scroll_to_newest(&state, pane->columns, pane->rows);
    pane->y += top;
    assert_true(surface_init(&surface, size.columns, size.rows, look.theme, look.ascii));
    view_draw(hand->engine.model, hand->engine.history, &state, &surface);
    char *text = surface_to_text(&surface);
    surface_release(&surface);
    assert_non_null(text);
    return text;
}

/* The text of a rectangle of it, with its lines; columns are code points. The caller frees. */
static char *part_of(const char *frame, struct rect at)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (int y = 0; *frame && y < at.y + at.rows; y++, frame += *frame == '\n') {
        for (int x = 0; *frame && *frame != '\n'; x++) {
            const char *from = frame;
            utf8_next(&frame);
            if (y >= at.y && x >= at.x && x < at.x + at.columns) fwrite(from, 1, (size_t)(frame - from), out);
        }
        if (y >= at.y) fputc('\n', out);
    }
    fclose(out);
    return text;
}

/* Without blanks and line breaks, nor the signs in front of hints and facts: what is left must be all of the text. */
static void squeeze(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!strchr(" \n>=", *from)) *to++ = *from;
    *to = '\0';
}

/* As an ASCII surface shows it. */
static char *as_shown(const char *text, bool ascii)
{
    struct surface surface;
    char *line = strdup(text);
    for (char *at = line; (at = strchr(at, '\n'));) *at = ' ';
    assert_true(surface_init(&surface, utf8_columns(line) + 1, 1, THEME_MONO, ascii));
    draw_text(canvas_of(&surface), 0, 0, STYLE_TEXT, line);
    free(line);
    char *shown = surface_to_text(&surface);
    surface_release(&surface);
    squeeze(shown);
    return shown;
}

static void fault(struct stage_hand *hand, const char *what, struct size size, const char *text)
{
    const struct lab_step *step = lab_play_step(&hand->play);
    fprintf(stderr, "labs/%s/lab.md:%d: part \"%s\" at %dx%d: %s: %s\n", hand->play.lab->name, step->line, step->title,
            size.columns, size.rows, what, text);
    hand->faults++;
}

/* Whether the paragraphs from `first` to `end` can all be read in this frame. */
static void hold_frame(struct stage_hand *hand, const char *pane_text, struct size size, struct dress look, int first,
                       int end)
{
    char *all = strdup(pane_text);
    squeeze(all);
    for (int p = first; p < end; p++) {
        char *shown = as_shown(hand->play.page.at[p].text, look.ascii);
        if (!strstr(all, shown)) fault(hand, "a text does not fit", size, hand->play.page.at[p].text);
        free(shown);
    }
    for (const char *at = pane_text; look.ascii && *at; at++)
        if ((unsigned char)*at > 126) fault(hand, "not ASCII", size, pane_text), at += strlen(at) - 1;
    free(all);
}

/* ---- what a learner meets ------------------------------------------------------------------------------------------- */

static void keep_golden(struct stage_hand *hand, const char *pane_text, const char *what)
{
    const struct lab_progress *progress = &hand->play.progress;
    fprintf(hand->golden, "---- part %d of %d, %s ----\n", progress->step + 1, progress->count, what);
    for (const char *at = pane_text; *at;) {
        size_t length = strcspn(at, "\n"), kept = length;
        while (kept && at[kept - 1] == ' ') kept--;
        if (kept) fprintf(hand->golden, "%.*s\n", (int)kept, at);
        else if (at[length + 1] != '\n' && at[length + 1]) fputc('\n', hand->golden); /* one empty line, not ten */
        at += length + (at[length] == '\n');
    }
}

/* What is to be done is said in whole, to a learner and to a presenter, who has more keys. */
static void hold_foot(struct stage_hand *hand, struct size size, struct dress look, bool told)
{
    for (int presents = 0; presents < 2; presents++) {
        struct lab_pane content = {0};
        struct rect pane;
        lab_pane_of(&content, &hand->play, presents);
        char *frame = frame_of(hand, size, look, told, presents, &pane), *text = part_of(frame, pane),
             *to_do = as_shown(content.to_do, look.ascii);
        squeeze(text);
        if (!strstr(text, to_do)) fault(hand, "what is to be done is cut", size, content.to_do);
        free(frame);
        free(text);
        free(to_do);
        lab_pane_release(&content);
    }
}

/* golden NULL: only held to what must be so. */
static void show(struct stage_hand *hand, const char *golden, int first, int end, bool told)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t l = 0; l < sizeof looks / sizeof *looks; l++) {
            struct rect pane;
            char *frame = frame_of(hand, sizes[s], looks[l], told, false, &pane), *text = part_of(frame, pane);
            hold_frame(hand, text, sizes[s], looks[l], first, end);
            hold_foot(hand, sizes[s], looks[l], told);
            if (golden && s == 0 && l == 0) keep_golden(hand, text, golden);
            free(text);
            free(frame);
        }
}

static int question_end(const struct lab_play *play)
{
    int end = 0;
    while (end < play->told_from && play->page.at[end].tone != TONE_HINT) end++;
    return end;
}

/* The newest hint must be there to be read, whatever stands above it. */
static void take_hints(struct stage_hand *hand)
{
    struct lab_play *play = &hand->play;
    const int hints = lab_play_step(play)->hint_count;
    for (int h = 0; h < hints; h++) {
        lab_play_hint(play, hand->engine.model, hand->engine.history);
        show(hand, h + 1 == hints ? "all hints" : NULL, play->page.count - 1, play->page.count, true);
    }
}

/* The n-th thing that somebody might believe; false: there are not so many. */
static bool say_wrong(struct stage_hand *hand, int n)
{
    struct lab_play *play = &hand->play;
    const struct lab_step *step = lab_play_step(play);
    const struct lab_value *wrong = &hand->wrong[play->progress.step][n < step->wrong_count ? n : LAB_WRONGS_MAX];
    char text[64];
    if (n > step->wrong_count || !wrong->known) return false;
    snprintf(text, sizeof text, "%.17g", wrong->quantity.value / (step->answer.unit ? step->answer.unit->factor : 1));
    lab_play_say(play, text);
    return play->phase == PLAY_ACTING;
}

static bool choose_wrong(struct stage_hand *hand, int n)
{
    const struct lab_step *step = lab_play_step(&hand->play);
    for (int c = 0; c < step->choice_count; c++)
        if (!step->choice[c].right && n-- == 0) return lab_play_choose(&hand->play, c), true;
    return false;
}

static void answer(struct stage_hand *hand)
{
    struct lab_play *play = &hand->play;
    const enum lab_ask ask = lab_play_step(play)->ask;
    const int wrong = hand->round - ROUND_WRONG;
    bool said = false;
    if (hand->round == ROUND_WRONG) show(hand, "asked", 0, question_end(play), false), take_hints(hand);
    if (wrong >= 0 && ask == LAB_PREDICT) said = say_wrong(hand, wrong);
    if (wrong >= 0 && ask == LAB_QUIZ) said = choose_wrong(hand, wrong);
    if (wrong == 0 && ask == LAB_TASK) {
        lab_play_check(play, hand->engine.model, hand->engine.history);
        show(hand, "not done yet", play->told_from, play->page.count, true);
    }
    if (!said) lab_play_reveal(play);
}

static void collect_wrongs(struct stage_hand *hand)
{
    const struct lab_step *step = lab_play_step(&hand->play);
    struct lab_scene scene = lab_play_scene(&hand->play, hand->engine.model, hand->engine.history);
    struct lab_value *wrong = hand->wrong[hand->play.progress.step];
    for (int w = 0; w < step->wrong_count; w++) wrong[w] = expression_evaluate(step->wrong[w].value, &scene);
    wrong[LAB_WRONGS_MAX] = expression_evaluate(step->answer.value, &scene);
    wrong[LAB_WRONGS_MAX].quantity.value = 2 * wrong[LAB_WRONGS_MAX].quantity.value + 1e6;
}

static void told(struct stage_hand *hand)
{
    struct lab_play *play = &hand->play;
    const enum lab_ask ask = lab_play_step(play)->ask;
    const int first = ask == LAB_READ ? 0 : play->told_from;
    if (hand->round == ROUND_RIGHT && ask == LAB_PREDICT) collect_wrongs(hand);
    if (play->page.count == PAGE_MAX) fault(hand, "more paragraphs than there is room for", sizes[0], "");
    show(hand,
         hand->round == ROUND_WRONG ? ask == LAB_READ  ? "read"
                                      : play->revealed ? "shown"
                                                       : "wrong"
                                    : NULL,
         first, play->page.count, ask != LAB_READ);
    lab_play_next(play);
}

/* ---- a lab ---------------------------------------------------------------------------------------------------------- */

static void read_trace(struct lab_engine *engine, const struct lab *lab, const char *name)
{
    char path[200];
    struct source *source;
    struct trace_record record;
    struct error err;
    le_stop(engine);
    engine->model = run_model_new(&(struct run_model_options){0});
    engine->history = history_new(0);
    snprintf(path, sizeof path, "labs/%s/%s", lab->name, name);
    if (source_open_file(&source, path, &err)) fail_msg("%s", err.text);
    while (source_next(source, &record) == SOURCE_RECORD) {
        run_model_fold(engine->model, &record);
        history_fold(engine->history, engine->model, &record);
    }
    source_close(source);
}

/* A lab about a trace has the trace's own figures. */
static void start(struct stage_hand *hand, const struct lab *lab)
{
    const char *trace = lab_trace_at(lab, hand->play.at);
    if (trace) read_trace(&hand->engine, lab, trace);
    else le_start(&hand->engine, lab_sets_at(lab, hand->play.at), lab_resume_at(lab, hand->play.at));
    lab_play_started(&hand->play);
}

/* One thing after the other until the lab is done. */
static void play_round(struct stage_hand *hand, const struct lab *lab)
{
    struct lab_progress progress;
    lab_progress_init(&progress, lab);
    lab_play_init(&hand->play, lab, &progress);
    start(hand, lab);
    for (int turn = 0; turn < TURNS_MAX && hand->play.phase != PLAY_FINISHED; turn++) {
        enum lab_wish wish = lab_play_tick(&hand->play, hand->engine.model, hand->engine.history);
        if (wish == WISH_COMMAND) le_hear(&hand->engine, hand->play.driver.line);
        if (wish == WISH_RESTART) start(hand, lab);
        if (wish != WISH_NOTHING) continue;
        if (hand->play.phase == PLAY_STUCK) fail_msg("labs/%s is stuck: %s", lab->name, hand->play.driver.why_stuck);
        if (hand->play.phase == PLAY_ASKING) answer(hand);
        else if (hand->play.phase == PLAY_TOLD) told(hand);
        else if (hand->play.phase != PLAY_FINISHED && hand->play.phase != PLAY_ACTING)
            fail_msg("labs/%s: step %d waits for ever", lab->name, hand->play.at + 1);
    }
    assert_int_equal(hand->play.phase, PLAY_FINISHED);
    if (hand->round == ROUND_WRONG) show(hand, "done", 0, hand->play.page.count, false);
    lab_play_release(&hand->play);
    le_stop(&hand->engine);
}

static int rounds_of(const struct lab *lab)
{
    int most = 1;
    for (int s = 0; s < lab->step_count; s++) {
        const struct lab_step *step = &lab->steps[s];
        int wrongs = step->ask == LAB_QUIZ ? step->choice_count - 1 : step->wrong_count + (step->ask == LAB_PREDICT);
        if (wrongs > most) most = wrongs;
    }
    return ROUND_WRONG + most;
}

static void every_step_of_every_lab_can_be_read(void **state)
{
    (void)state;
    int faults = 0, bad_files = 0;
    for (int f = 0; f < folder_count; f++) {
        struct stage_hand hand = {0};
        struct lab *lab;
        struct error err = {0};
        char *text = NULL, name[96];
        size_t bytes;
        if (lab_open(&lab, folders[f], &err)) fail_msg("%s", err.text);
        hand.golden = open_memstream(&text, &bytes);
        for (hand.round = 0; hand.round < rounds_of(lab) && !hand.faults; hand.round++) play_round(&hand, lab);
        fclose(hand.golden);
        snprintf(name, sizeof name, "%s.txt", lab->name);
        bad_files += !golden_same(name, text);
        faults += hand.faults;
        free(text);
        lab_free(lab);
    }
    assert_true(folder_count > 0);
    assert_int_equal(faults, 0);
    assert_int_equal(bad_files, 0);
}

/* ---- which labs ----------------------------------------------------------------------------------------------------- */

static bool is_used(const char *name)
{
    for (int f = 0; f < folder_count; f++) {
        size_t length = strlen(folders[f]);
        if (strncmp(name, folders[f], length) == 0 && strcmp(name + length, ".txt") == 0) return true;
    }
    return false;
}

static void no_file_is_left_over(void **state)
{
    (void)state;
    assert_true(golden_all_used(is_used));
}

/* A lab may look at every view that shows a run, and at no other; the reader keeps a list of them. */
static void labs_look_at_views_that_there_are(void **state)
{
    (void)state;
    for (int v = 0; v < VIEWS; v++) {
        const char *name = view_of((enum view_id)v)->name;
        char text[200];
        struct lab *lab;
        struct error err;
        int length = snprintf(text, sizeof text, "# T\nabout: a\nminutes: 1\n\n## S\n\ntext\nlook: %s\n", name);
        const bool shows_run = v != VIEW_HELP && v != VIEW_MOMENTS;
        const int status = lab_read(&lab, "labs/t/lab.md", text, (size_t)length, &err);
        if (shows_run != !status) fail_msg("look: %s: %s", name, status ? err.text : "is taken");
        lab_free(lab);
    }
    struct error err;
    struct lab *lab;
    static const char none[] = "# T\nabout: a\nminutes: 1\n\n## S\n\ntext\nlook: links\n";
    assert_int_equal(lab_read(&lab, "labs/t/lab.md", none, strlen(none), &err), STATUS_USAGE);
    char *list = strstr(err.text, "there are ");
    assert_non_null(list);
    for (char *name = strtok(list + 10, ", "); name; name = strtok(NULL, ", "))
        if (view_named(name) < 0) fail_msg("there is no view %s", name);
}

/* A learner reads sentences; what is compared is read by whoever writes labs. */
static void every_check_and_end_has_words(void **state)
{
    (void)state;
    int bare = 0;
    for (int f = 0; f < folder_count; f++) {
        struct lab *lab;
        struct error err = {0};
        if (lab_open(&lab, folders[f], &err)) fail_msg("%s", err.text);
        if (!lab->elsewhere) fail_msg("labs/%s/lab.md: no elsewhere: what DeepSpeed and FSDP2 do otherwise", lab->name);
        for (int s = 0; s < lab->step_count; s++)
            for (int c = 0; c < lab->steps[s].check_count; c++) {
                const struct lab_check *check = &lab->steps[s].check[c];
                if (check->said.count) continue;
                fprintf(stderr, "labs/%s/lab.md:%d: no sentence for learners: %s\n", lab->name, check->line,
                        check->text);
                bare++;
            }
        lab_free(lab);
    }
    assert_int_equal(bare, 0);
}

/* What lies in labs/ is what the program has. */
static void the_catalog_has_them_all(void **state)
{
    (void)state;
    for (int f = 0; f < folder_count; f++) {
        bool found = false;
        for (int l = 0; l < lab_catalog_count(); l++) found |= strcmp(lab_catalog_name(l), folders[f]) == 0;
        if (!found) fail_msg("labs/%s has no row in engine/lab/labs.def", folders[f]);
    }
    assert_int_equal(lab_catalog_count(), folder_count);
}

static int is_lab(const struct dirent *entry)
{
    char path[300];
    snprintf(path, sizeof path, "labs/%s/lab.md", entry->d_name);
    return entry->d_name[0] != '.' && access(path, R_OK) == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_of_every_lab_can_be_read),
        cmocka_unit_test(no_file_is_left_over),
        cmocka_unit_test(every_check_and_end_has_words),
        cmocka_unit_test(the_catalog_has_them_all),
        cmocka_unit_test(labs_look_at_views_that_there_are),
    };
    struct dirent **names;
    int count = scandir("labs", &names, is_lab, alphasort);
    setlocale(LC_CTYPE, "C.UTF-8");
    for (int n = 0; n < count && folder_count < LABS_MAX; n++) folders[folder_count++] = names[n]->d_name;
    int failed = cmocka_run_group_tests_name("labs on the screen", tests, NULL, NULL);
    for (int n = 0; n < count; n++) free(names[n]);
    if (count >= 0) free(names);
    return failed;
}
