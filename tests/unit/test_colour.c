/* Colours and letters of memory and of time, computed from the tables themselves: contrast by WCAG 2, distances by CIEDE2000 as
 * normal and as colour-blind eyes see them (Machado, Oliveira and Fernandes 2009, severity 1), hues by OKLCH. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "engine/base/tier.h"
#include "tui/draw/style.h"
#include "tui/timeline/timeline.h"
#include "tui/view/tier_bar.h"

#define PI 3.14159265358979323846

struct style_named { enum style style; const char *name; };
#define ROW(ID) {STYLE_##ID, #ID}

/* Styles that fill areas, by what they tell of. EXPOSED is the colour of GATHER: somebody waits for it. */
static const struct style_named memory[] = {ROW(PARAMETERS), ROW(GRADIENTS), ROW(OPTIMIZER), ROW(ACTIVATIONS),  ROW(BUCKETS),
                                            ROW(GATHERED),   ROW(STAGING),   ROW(WORKSPACE), ROW(UNATTRIBUTED), ROW(SECONDARY)},
                                time[] = {ROW(FORWARD),       ROW(BACKWARD),    ROW(UPDATE),       ROW(LANE_GATHER),
                                          ROW(LANE_PREFETCH), ROW(LANE_REDUCE), ROW(LANE_REFRESH), ROW(LANE_AGREE)};
enum { MEMORY = sizeof memory / sizeof *memory, TIME = sizeof time / sizeof *time };
static const enum theme coloured[] = {THEME_DEFAULT, THEME_LIGHT, THEME_PROJECTOR};
enum { COLOURED = sizeof coloured / sizeof *coloured };

struct cielab { double l, a, b; };

/* ---- colour science ------------------------------------------------------------------------------------------------ */

static void linear_of(double out[3], uint32_t rgb)
{
    for (int i = 0; i < 3; i++) {
        const double value = (double)(rgb >> (16 - 8 * i) & 255) / 255;
        out[i] = value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4);
    }
}

static double contrast(uint32_t one, uint32_t other)
{
    double luminance[2];
    for (int i = 0; i < 2; i++) {
        double of[3];
        linear_of(of, i ? other : one);
        luminance[i] = 0.2126 * of[0] + 0.7152 * of[1] + 0.0722 * of[2] + 0.05;
    }
    return luminance[0] > luminance[1] ? luminance[0] / luminance[1] : luminance[1] / luminance[0];
}

enum eyes { NORMAL, DEUTERANOPIA, PROTANOPIA, TRITANOPIA, EYES };
static const char *const eyes_named[EYES] = {"normal", "deuteranopia", "protanopia", "tritanopia"};

static const double seen_by[EYES][3][3] = {
    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
    {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
};

static double lightness_curve(double t)
{
    return t > 216.0 / 24389 ? cbrt(t) : (24389.0 / 27 * t + 16) / 116;
}

/* CIELAB under D65 of what these eyes see. */
static struct cielab lab_of(uint32_t rgb, enum eyes eyes)
{
    static const double to_xyz[3][3] = {{0.4124564 / 0.95047, 0.3575761 / 0.95047, 0.1804375 / 0.95047},
                                        {0.2126729, 0.7151522, 0.0721750},
                                        {0.0193339 / 1.08883, 0.1191920 / 1.08883, 0.9503041 / 1.08883}};
    double from[3], seen[3] = {0}, of[3] = {0};
    linear_of(from, rgb);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) seen[i] += seen_by[eyes][i][k] * from[k];
        seen[i] = fmin(1, fmax(0, seen[i]));
    }
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) of[i] += to_xyz[i][k] * seen[k];
        of[i] = lightness_curve(of[i]);
    }
    return (struct cielab){116 * of[1] - 16, 500 * (of[0] - of[1]), 200 * (of[1] - of[2])};
}

static double radians(double degrees)
{
    return degrees * PI / 180;
}

static double hue_of(double a, double b)
{
    return a == 0 && b == 0 ? 0 : fmod(atan2(b, a) * 180 / PI + 360, 360);
}

static double twenty_five(double chroma)
{
    return sqrt(pow(chroma, 7) / (pow(chroma, 7) + pow(25, 7)));
}

/* Sharma, Wu and Dalal 2005, with their names. */
static double ciede2000(struct cielab x, struct cielab y)
{
    const double g = 0.5 * (1 - twenty_five((hypot(x.a, x.b) + hypot(y.a, y.b)) / 2));
    const double c1 = hypot((1 + g) * x.a, x.b), c2 = hypot((1 + g) * y.a, y.b);
    const double h1 = hue_of((1 + g) * x.a, x.b), h2 = hue_of((1 + g) * y.a, y.b);
    const double turn = c1 * c2 == 0 ? 0 : h2 - h1 > 180 ? h2 - h1 - 360 : h2 - h1 < -180 ? h2 - h1 + 360 : h2 - h1;
    const double h = c1 * c2 == 0           ? h1 + h2
                     : fabs(h1 - h2) <= 180 ? (h1 + h2) / 2
                     : h1 + h2 < 360        ? (h1 + h2 + 360) / 2
                                            : (h1 + h2 - 360) / 2;
    const double l = (x.l + y.l) / 2 - 50, c = (c1 + c2) / 2;
    const double t = 1 - 0.17 * cos(radians(h - 30)) + 0.24 * cos(radians(2 * h)) + 0.32 * cos(radians(3 * h + 6)) -
                     0.20 * cos(radians(4 * h - 63));
    const double rotation = -sin(radians(60 * exp(-pow((h - 275) / 25, 2)))) * 2 * twenty_five(c);
    const double dl = (y.l - x.l) / (1 + 0.015 * l * l / sqrt(20 + l * l)), dc = (c2 - c1) / (1 + 0.045 * c),
                 dh = 2 * sqrt(c1 * c2) * sin(radians(turn / 2)) / (1 + 0.015 * c * t);
    return sqrt(dl * dl + dc * dc + dh * dh + rotation * dc * dh);
}

/* Chroma of OKLCH; *hue in degrees. */
static double oklch(uint32_t rgb, double *hue)
{
    double of[3];
    linear_of(of, rgb);
    const double l = cbrt(0.4122214708 * of[0] + 0.5363325363 * of[1] + 0.0514459929 * of[2]),
                 m = cbrt(0.2119034982 * of[0] + 0.6806995451 * of[1] + 0.1073969566 * of[2]),
                 s = cbrt(0.0883024619 * of[0] + 0.2817188376 * of[1] + 0.6299787005 * of[2]);
    const double a = 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
                 b = 0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s;
    *hue = hue_of(a, b);
    return hypot(a, b);
}

/* Of the pairs published with the formula, those that meet its discontinuities, and some far apart. */
static void distances_are_as_published(void **state)
{
    (void)state;
    static const struct { struct cielab x, y; double distance; } published[] = {
        {{50, 2.6772, -79.7751}, {50, 0, -82.7485}, 2.0425},   {{50, 3.1571, -77.2803}, {50, 0, -82.7485}, 2.8615},
        {{50, 2.8361, -74.0200}, {50, 0, -82.7485}, 3.4412},   {{50, 0, 0}, {50, -1, 2}, 2.3669},
        {{50, 2.4900, -0.0010}, {50, -2.4900, 0.0009}, 7.1792}, {{50, 2.4900, -0.0010}, {50, -2.4900, 0.0011}, 7.2195},
        {{50, -0.0010, 2.4900}, {50, 0.0011, -2.4900}, 4.7461}, {{50, 2.5, 0}, {50, 0, -2.5}, 4.3065},
        {{50, 2.5, 0}, {73, 25, -18}, 27.1492},                {{50, 2.5, 0}, {61, -5, 29}, 22.8977},
        {{50, 2.5, 0}, {56, -27, -3}, 31.9030},                {{50, 2.5, 0}, {58, 24, 15}, 19.4535},
        {{2.0776, 0.0795, -1.1350}, {0.9033, -0.0636, -0.5514}, 0.9082},
    };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const double distance = ciede2000(published[i].x, published[i].y);
        if (fabs(distance - published[i].distance) > 0.00006) fail_msg("pair %zu: %.5f, not %.4f", i, distance, published[i].distance);
    }
    const struct cielab red = lab_of(0xff0000, NORMAL);
    assert_true(fabs(red.l - 53.24) < 0.01 && fabs(red.a - 80.09) < 0.01 && fabs(red.b - 67.20) < 0.01);
    assert_true(fabs(contrast(0xffffff, 0x767676) - 4.54) < 0.005);
}

/* ---- the table ------------------------------------------------------------------------------------------------------ */

static uint32_t fill_of(enum theme theme, enum style style)
{
    const struct look look = style_look(theme, DEPTH_TRUE, style);
    assert_in_range(look.background, 16, COLOUR_DEFAULT - 1);
    return colour_rgb(look.background);
}

static const struct style_named *row_of(int i)
{
    return i < MEMORY ? &memory[i] : &time[i - MEMORY];
}

static void letters_and_fills_can_be_read(void **state)
{
    (void)state;
    double letter = 99, ground = 99;
    for (int t = 0; t < COLOURED; t++)
        for (int i = 0; i < MEMORY + TIME; i++) {
            const struct look look = style_look(coloured[t], DEPTH_TRUE, row_of(i)->style);
            const uint32_t fill = fill_of(coloured[t], row_of(i)->style);
            const double on_fill = contrast(colour_rgb(look.foreground), fill), on_ground = contrast(fill, theme_ground(coloured[t]));
            letter = fmin(letter, on_fill), ground = fmin(ground, on_ground);
            if (on_fill < 4.5 || on_ground < 3)
                fail_msg("%s in theme %s: letter on fill %.2f (4.5), fill on ground %.2f (3)", row_of(i)->name,
                         theme_name(coloured[t]), on_fill, on_ground);
        }
    print_message("           least contrast: letter on fill %.2f, fill on ground %.2f\n", letter, ground);
}

/* Least distance of two styles, one of [from, to) and one before it of [first, end). */
static double least(enum theme theme, enum eyes eyes, int from, int to, int first, int end, const char *names[2])
{
    double found = 999;
    for (int i = from; i < to; i++)
        for (int k = first; k < end && k < i; k++) {
            const double distance = ciede2000(lab_of(fill_of(theme, row_of(i)->style), eyes), lab_of(fill_of(theme, row_of(k)->style), eyes));
            if (distance >= found) continue;
            found = distance;
            names[0] = row_of(k)->name, names[1] = row_of(i)->name;
        }
    return found;
}

/* Tritanopia, one in ten thousand, has what is left: its figures are printed. */
static void fills_can_be_told_apart(void **state)
{
    (void)state;
    static const struct { const char *name; int from, to, first, end; double wanted; } parts[] = {
        {"within memory", 0, MEMORY, 0, MEMORY, 12},
        {"within time", MEMORY, MEMORY + TIME, MEMORY, MEMORY + TIME, 12},
        {"across", MEMORY, MEMORY + TIME, 0, MEMORY, 6},
    };
    for (int t = 0; t < COLOURED; t++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            for (enum eyes eyes = 0; eyes < EYES; eyes++) {
                const char *names[2] = {"", ""};
                const double distance = least(coloured[t], eyes, parts[p].from, parts[p].to, parts[p].first, parts[p].end, names);
                print_message("           %-9s %-13s %-12s %5.1f %s %s\n", theme_name(coloured[t]), parts[p].name,
                              eyes_named[eyes], distance, names[0], names[1]);
                if (eyes != TRITANOPIA && distance < parts[p].wanted) fail_msg("that is less than %.0f", parts[p].wanted);
            }
}

static bool is_hue_of_memory(double hue)
{
    return (hue >= 60 && hue < 112) || (hue >= 225 && hue < 320);
}

/* Memory may be grey, too. */
static void hues_of_memory_and_time_are_disjoint(void **state)
{
    (void)state;
    for (int t = 0; t < COLOURED; t++)
        for (int i = 0; i < MEMORY + TIME; i++) {
            double hue;
            const double chroma = oklch(fill_of(coloured[t], row_of(i)->style), &hue);
            if (i < MEMORY ? chroma >= 0.012 && !is_hue_of_memory(hue) : chroma < 0.03 || is_hue_of_memory(hue))
                fail_msg("%s in theme %s has hue %.0f, chroma %.3f", row_of(i)->name, theme_name(coloured[t]), hue, chroma);
        }
}

/* Of the terminal's 16 as well no colour means both. */
static void sixteen_colours_are_disjoint(void **state)
{
    (void)state;
    for (int t = 0; t < COLOURED; t++)
        for (int m = 0; m < MEMORY; m++)
            for (int k = 0; k < TIME; k++)
                if (style_look(coloured[t], DEPTH_16, memory[m].style).background == style_look(coloured[t], DEPTH_16, time[k].style).background)
                    fail_msg("%s and %s are of one colour in theme %s", memory[m].name, time[k].name, theme_name(coloured[t]));
}

/* In either case; an operation's letter is another one's, too, never; nor is a wait's small letter one of other work. */
static void letters_mean_one_thing(void **state)
{
    (void)state;
    char used[64] = "";
    for (int c = 0; c < CATEGORIES; c++) {
        assert_int_equal(category_look(c)->letter, category_letter((enum category)c));
        assert_null(strchr(used, category_look(c)->letter));
        used[strlen(used)] = category_look(c)->letter;
    }
    for (enum mark mark = MARK_FORWARD; mark < MARKS; mark++) {
        const uint32_t letter = mark_look(mark).letter;
        if (letter == ' ' || letter > 126) continue;
        if (strchr(used, (int)letter) || (mark >= MARK_WAIT && strchr("PGOABLSWH", toupper((int)letter))))
            fail_msg("'%c' of %s is a letter of something else", (char)letter, mark_look(mark).name);
        used[strlen(used)] = (char)letter;
    }
}

/* Every box begins with its letter, so no filling may look like it: else two boxes of one kind look like one. */
static void a_filling_is_no_letter(void **state)
{
    (void)state;
    for (enum mark mark = MARK_FORWARD; mark < MARKS; mark++) {
        const struct mark_look look = mark_look(mark);
        if (mark == MARK_WAIT) continue;
        if (look.letter == look.pattern || look.letter == (uint32_t)look.sign)
            fail_msg("the filling of %s is its letter", look.name);
    }
}

/* A wait has the small letter of the work that it waits for. */
static void waits_have_the_letters_of_work(void **state)
{
    (void)state;
    static const struct { enum stall why; enum mark work; } pairs[] = {
        {STALL_GATHER, MARK_GATHER}, {STALL_BUCKET, MARK_REDUCE}, {STALL_REFRESH, MARK_REFRESH},
        {STALL_AGREE, MARK_AGREE},   {STALL_HOST, MARK_UPDATE}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(stall_table[pairs[i].why].letter, tolower((int)mark_look(pairs[i].work).letter));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_are_as_published),   cmocka_unit_test(letters_and_fills_can_be_read),
        cmocka_unit_test(fills_can_be_told_apart),      cmocka_unit_test(hues_of_memory_and_time_are_disjoint),
        cmocka_unit_test(sixteen_colours_are_disjoint), cmocka_unit_test(letters_mean_one_thing),
        cmocka_unit_test(a_filling_is_no_letter),       cmocka_unit_test(waits_have_the_letters_of_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
