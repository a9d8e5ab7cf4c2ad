/* The form for the back row of a lecture hall: three bands a rank, and the sum of its bytes a parameter in large figures. */
#include <stdio.h>

#include "tui/view/tier_bar.h"
#include "tui/whiteboard/board.h"

enum { DIGIT_COLUMNS = 3, DIGIT_ROWS = 5, SUM_COLUMNS = 13 /* of "4.00" */, ZOOM_MAX = 3, BANDS_LEAST = 3 };

/* Rows of three bits from the top down, the highest first. */
static const unsigned short digits[10] = {0x7b6f, 0x2c97, 0x73e7, 0x73cf, 0x5bc9,
                                          0x79cf, 0x79ef, 0x7249, 0x7bef, 0x7bcf};

/* A digit, or a point of one column; returns the column behind it and a gap. */
static int draw_sign(struct canvas canvas, int x, int y, int zoom, char sign)
{
    const bool point = sign == '.';
    const int columns = point ? 1 : DIGIT_COLUMNS;
    for (int row = 0; row < DIGIT_ROWS * zoom; row++)
        for (int c = 0; c < columns * zoom; c++) {
            const int bit = DIGIT_COLUMNS * DIGIT_ROWS - 1 - row / zoom * DIGIT_COLUMNS - c / zoom;
            const bool filled = point ? row / zoom == DIGIT_ROWS - 1 : digits[sign - '0'] >> bit & 1;
            if (filled) draw_character(canvas, x + c, y + row, STYLE_STRONG, 0x2588);
        }
    return x + (columns + 1) * zoom;
}

/* Parameters, gradients and optimizer state together, in bytes a parameter. False: not known yet. */
static bool sum_of(double *sum, const struct board_rank *of, const struct board *board)
{
    const struct run_model *model = board->scene->model;
    uint64_t bytes;
    *sum = 0;
    for (int array = 0; array < BOARD_ARRAYS; array++) {
        if (!board_held(&model->rank[of->rank], board_categories[array], &bytes)) return false;
        *sum += (double)bytes / (double)model->header.parameters;
    }
    return model->header.parameters > 0;
}

static void draw_sum(struct canvas canvas, int y, int zoom, const struct board_rank *of, const struct board *board)
{
    char text[16] = "";
    double sum;
    int x = of->x;
    if (!sum_of(&sum, of, board)) return;
    snprintf(text, sizeof text, sum < 9.995 ? "%.2f" : "%.1f", sum);
    for (const char *sign = text; *sign; sign++) x = draw_sign(canvas, x, y, zoom, *sign);
}

/* "O 2.00" and where it is kept, beside the first column. */
static void draw_label(struct canvas canvas, int y, int rows, int array, const struct board *board)
{
    const struct run_model *model = board->scene->model;
    uint64_t bytes;
    const int x = draw_format(canvas, 0, y, STYLE_STRONG, "%c ", category_look((int)board_categories[array])->letter);
    if (board_held(&model->rank[board->rank], board_categories[array], &bytes) && model->header.parameters > 0)
        draw_format(canvas, x, y, STYLE_TEXT, "%.2f", (double)bytes / (double)model->header.parameters);
    for (enum tier tier = TIER_HOST; tier < TIERS && rows > 1; tier++)
        if (board->tiers[array] >> tier & 1) draw_text(canvas, 0, ++y, STYLE_DIM, tiers_name(tier));
}

void board_bands(struct canvas canvas, int y, int rows, const struct board_rank *of, const struct board *board)
{
    const int all = board->width[0] + board->width[1] + board->width[2];
    int zoom = ZOOM_MAX, before = 0, top = 0;
    while (zoom > 1 && (SUM_COLUMNS * zoom > board->tile || 2 * DIGIT_ROWS * zoom > rows)) zoom--;
    const int room = rows - DIGIT_ROWS * zoom - 1, figures = y + rows - DIGIT_ROWS * zoom;
    for (int array = 0; array < BOARD_ARRAYS && room >= BANDS_LEAST; array++) {
        before += board->width[array];
        int end = (room * before + all / 2) / all;
        if (end <= top) end = top + 1;
        board_band(canvas, y + top, end - top, array, of, board);
        if (of->x == BOARD_LABEL) draw_label(canvas, y + top, end - top, array, board);
        top = end;
    }
    draw_sum(canvas, figures, zoom, of, board);
    if (of->x > BOARD_LABEL) return;
    draw_format(canvas, 0, figures, STYLE_STRONG, "of %d", all);
    draw_text(canvas, 0, figures + 1, STYLE_TEXT, "bytes a");
    draw_text(canvas, 0, figures + 2, STYLE_TEXT, "param.");
}
