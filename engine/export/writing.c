/* JSON and names, as several formats write them. */
#include <math.h>
#include <string.h>

#include "engine/export/parts.h"

/* Bytes of the UTF-8 character at `at`, and *character; 1 and U+FFFD where there is none. */
static size_t character_at(const unsigned char *at, size_t bytes, unsigned *character)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = at[0] < 0x80   ? 1
                          : at[0] < 0xc2 ? 0
                          : at[0] < 0xe0 ? 2
                          : at[0] < 0xf0 ? 3
                          : at[0] < 0xf5 ? 4
                                         : 0;
    unsigned value = length == 1 ? at[0] : at[0] & (0x7fu >> length);
    bool valid = length > 0 && length <= bytes;
    for (size_t i = 1; valid && i < length; i++) {
        valid = (at[i] & 0xc0) == 0x80;
        value = value << 6 | (at[i] & 0x3f);
    }
    valid = valid && value >= least[length] && value <= 0x10ffff && (value < 0xd800 || value > 0xdfff);
    *character = valid ? value : 0xfffd;
    return valid ? length : 1;
}

static void put_character(FILE *out, unsigned character)
{
    if (character == '"' || character == '\\') fprintf(out, "\\%c", (int)character);
    else if (character >= ' ' && character < 0x7f) putc((int)character, out);
    else if (character < 0x10000) fprintf(out, "\\u%04x", character);
    else fprintf(out, "\\u%04x\\u%04x", 0xd7c0 + (character >> 10), 0xdc00 + (character & 0x3ff));
}

void put_json_text(FILE *out, const char *at, size_t bytes)
{
    unsigned character;
    putc('"', out);
    for (size_t i = 0; i < bytes;) {
        i += character_at((const unsigned char *)at + i, bytes - i, &character);
        put_character(out, character);
    }
    putc('"', out);
}

void put_json_number(FILE *out, double value, int digits)
{
    if (isfinite(value)) fprintf(out, "%.*g", digits, value);
    else fputs("null", out);
}

void put_us(FILE *out, uint64_t ns)
{
    fprintf(out, "%llu.%03u", (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

void put_us_since(FILE *out, uint64_t base_ns, uint64_t ns)
{
    if (ns < base_ns) putc('-', out);
    put_us(out, ns < base_ns ? base_ns - ns : ns - base_ns);
}

/* ---- names ---- */

const char *export_unit(const struct run_model *model, int unit)
{
    const struct run_header *header = &model->header;
    return unit >= 0 && unit < header->unit_count && header->units[unit].name[0] ? header->units[unit].name : NULL;
}

static bool is_named_by_unit(enum op_kind kind)
{
    return kind == OP_GATHER || kind == OP_REFRESH || kind == OP_UPDATE || kind == OP_QUANTIZE ||
           kind == OP_DEQUANTIZE || op_lane(kind) > LANE_COMM;
}

static bool is_named_by_bucket(const struct op *op)
{
    return op->bucket >= 0 && (op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE || op->kind == OP_GRAD_D2H ||
                               op->kind == OP_QUANTIZE);
}

void export_label(char out[EXPORT_LABEL], const struct run_model *model, const struct op *op)
{
    const char *what = op_name(op->kind, op->use), *unit = export_unit(model, op->unit);
    const char *digits = unit ? strrchr(unit, ' ') : NULL;
    if (digits && (digits[1] < '0' || digits[1] > '9')) digits = NULL;
    if (is_named_by_bucket(op)) snprintf(out, EXPORT_LABEL, "%s bucket %d", what, op->bucket);
    else if (is_named_by_unit(op->kind) && unit) snprintf(out, EXPORT_LABEL, "%s %s", what, unit);
    else snprintf(out, EXPORT_LABEL, "%s%s", what, digits ? digits : "");
}

bool export_op_of(struct export *export, const struct trace_record *record, struct export_op *found)
{
    *found = (struct export_op){.from = &record->op_end, .ended_ns = record->time_ns};
    found->schedule = run_schedule_numbered(export->model, found->from->schedule);
    found->op = run_op(found->schedule, found->from->op);
    if (found->op && found->from->started_ns && found->from->started_ns <= found->ended_ns) return true;
    export->told->unplaced++;
    return false;
}
