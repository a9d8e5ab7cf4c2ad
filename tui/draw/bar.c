#include "tui/draw/bar.h"

#include <ctype.h>
#include <math.h>

static int widest(const int shares[], int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (shares[i] > shares[best]) best = i;
    return best;
}

static int columns_up_to(double sum, uint64_t scale, int columns)
{
    if (!scale) return 0;
    double end = floor(sum / (double)scale * columns + 0.5);
    return end > columns ? columns : (int)end;
}

void bar_shares(int shares[], const struct segment segments[], int count, uint64_t scale, int columns)
{
    double sum = 0;
    int before = 0;
    for (int i = 0; i < count; i++) {
        sum += (double)segments[i].value;
        int end = columns_up_to(sum, scale, columns);
        shares[i] = end - before;
        before = end;
    }
    for (int i = 0; i < count; i++) {
        if (!segments[i].value || shares[i]) continue;
        int giver = widest(shares, count);
        if (shares[giver] > 1) shares[giver]--;
        else if (before < columns) before++;
        else continue;
        shares[i]++;
    }
}

uint32_t filling(const struct surface *surface, enum style style, char letter, uint32_t pattern)
{
    if (surface->ascii) return (uint32_t)letter;
    return surface_look(surface, style).background != COLOUR_DEFAULT ? ' ' : pattern;
}

void draw_bar(struct canvas canvas, int x, int y, int columns, const struct segment segments[], int count,
              uint64_t scale)
{
    int shares[SEGMENTS_MAX];
    bar_shares(shares, segments, count, scale, columns);
    for (int i = 0; i < count; i++) {
        draw_fill(canvas, x, y, shares[i], segments[i].style,
                  filling(canvas.surface, segments[i].style, segments[i].letter, segments[i].pattern));
        if (shares[i] && (isalpha((unsigned char)segments[i].letter) || segments[i].letter == '?'))
            draw_character(canvas, x, y, segments[i].style, (uint32_t)segments[i].letter);
        x += shares[i];
    }
}

float column_mean(const float values[], int count, int i, int columns)
{
    int first = (int)((int64_t)i * count / columns), end = (int)((int64_t)(i + 1) * count / columns), known = 0;
    float sum = 0;
    if (end <= first) end = first + 1;
    for (int k = first; k < end; k++)
        if (!isnan(values[k])) sum += values[k], known++;
    return known ? sum / (float)known : NAN;
}

void draw_sparkline(struct canvas canvas, int x, int y, int columns, enum style style, const float values[], int count)
{
    if (count <= 0 || columns <= 0) return;
    if (count < columns) columns = count;
    float low = values[0], high = values[0];
    for (int i = 1; i < count; i++) {
        low = fminf(low, values[i]);
        high = fmaxf(high, values[i]);
    }
    for (int i = 0; i < columns; i++) {
        const float mean = column_mean(values, count, i, columns), share = high > low ? (mean - low) / (high - low) : 0.5f;
        if (isnan(mean)) draw_character(canvas, x + i, y, STYLE_DIM, '?');
        else draw_character(canvas, x + i, y, style, 0x2581 + (uint32_t)(share * 7.0f + 0.5f));
    }
}

void draw_heat(struct canvas canvas, int x, int y, enum style style, uint64_t value, uint64_t scale)
{
    static const uint32_t shades[] = {' ', 0x2591, 0x2592, 0x2593, 0x2588};
    int level = scale ? (int)ceil((double)value / (double)scale * 4.0) : 0;
    draw_character(canvas, x, y, style, shades[level > 4 ? 4 : level]);
}
