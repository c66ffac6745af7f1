/*
 * chat_form.c: see chat_form.h.
 *
 * The accessors of chat_json mark what a reader looks at. What lies between
 * two holes is compared in one go; a hole is scanned once, by the rules of
 * the JSON parser.
 */

#include "stream/chat_form.h"
#include "bytes/chat_word.h"
#include "json/chat_json_scan.h"


void
chat_forms_init(chat_forms_t *forms, const chat_dialect_t *dialect,
                chat_reader_t *reader, chat_arena_t *arena)
{
    forms->dialect = dialect;
    forms->reader = reader;
    forms->arena = arena;
    forms->count = 0;
    forms->next = 0;
    forms->last = 0;
}


/* How many bytes a and b, of n bytes each, have in common at their start. */
static size_t
common(const unsigned char *a, const unsigned char *b, size_t n)
{
    size_t   i = 0;
    uint64_t other = 0;

    while (n - i >= 64 && memcmp(a + i, b + i, 64) == 0) {
        i += 64;
    }

    while (n - i >= sizeof(other) && other == 0) {
        other = chat_word_at(a + i) ^ chat_word_at(b + i);
        i += other == 0 ? sizeof(other) : chat_word_first(other);
    }

    while (i < n && a[i] == b[i]) {
        i++;
    }

    return i;
}


/* The values of a frame that the reader looks at. */
typedef struct {
    chat_span_t text;
    chat_span_t number;
} chat_form_values_t;


/*
 * Places the value number `which` (0: none) after that of a hole is found: the
 * values behind a hole move as its end does.
 */
static void
place(chat_span_t *value, const chat_form_t *form, size_t which, size_t hole,
      chat_span_t found)
{
    const chat_form_hole_t *holes = form->holes;
    uint32_t                shift = found.end - holes[hole].at.end;

    if (which == hole + 1) {
        *value = found;

    } else if (which > hole + 1) {
        value->start = holes[which - 1].at.start + shift;
        value->end = holes[which - 1].at.end + shift;
    }
}


/*
 * Length of the frame of this form that input begins with, or 0.
 *
 * Most values are those of the learnt frame: what is equal up to the next
 * value that is not, is skipped in one go.
 */
static size_t
match(const chat_form_t *form, chat_str_t input, chat_form_values_t *values)
{
    size_t                  i, len, left, from = 0;
    unsigned                has = 0;
    chat_span_t             at;
    const unsigned char    *p = input.data, *end = p + input.len, *start;
    const chat_form_hole_t *hole = form->holes;

    values->text = form->holes[form->text ? form->text - 1 : 0].at;
    values->number = form->holes[form->number ? form->number - 1 : 0].at;

    for (i = 0; /* void */; i++, hole++) {
        left = form->len - from;
        len = common(form->bytes + from, p,
                     left < (size_t) (end - p) ? left : (size_t) (end - p));

        while (i < form->count && hole->at.end - from < len) {
            i++;
            hole++;
        }

        if (len == left) {
            return (size_t) (p - input.data) + len;
        }

        if (i == form->count || hole->at.start - from > len) {
            return 0;
        }

        start = p + (hole->at.start - from);
        p = hole->type == CHAT_JSON_STRING
                ? chat_json_string_end(start, end, &has)
                : chat_json_number_end(start, end);
        if (p == NULL) {
            return 0;
        }

        at.start = (uint32_t) (start - input.data);
        at.end = (uint32_t) (p - input.data);
        place(&values->text, form, form->text, i, at);
        place(&values->number, form, form->number, i, at);
        from = hole->at.end;
    }
}


/* The reader takes the sequence number of a frame of this form. */
static void
take_number(const chat_forms_t *forms, const chat_form_t *form, chat_str_t raw,
            chat_span_t at)
{
    int32_t         n;
    chat_json_t     node = { .type = CHAT_JSON_NUMBER };
    chat_json_doc_t doc = { .text = raw };

    if (form->number == 0) {
        return;
    }

    node.start = at.start;
    node.end = at.end;
    n = chat_json_index(&doc, &node);
    forms->reader->number = n < 0 ? forms->reader->number : (uint32_t) n;
}


/* The event of a frame of this form, with this text. */
static void
say(const chat_forms_t *forms, const chat_form_t *form, chat_str_t raw,
    chat_span_t at, chat_event_t *event)
{
    chat_json_t     node = { .type = CHAT_JSON_STRING };
    chat_json_doc_t doc = { .text = raw, .arena = forms->arena };

    memset(event, 0, sizeof(*event));

    if (form->call == NULL) {
        event->type = CHAT_EVENT_OPAQUE;
        return;
    }

    event->type = CHAT_EVENT_CALL_ARGS;
    event->call = form->call;
    event->id = form->call->id;
    event->name = form->call->name;
    event->kind = form->call->kind;

    if (form->text != 0) {
        event->text = chat_str(raw.data + at.start, at.end - at.start);

        if (memchr(event->text.data, '\\', event->text.len) != NULL) {
            node.start = at.start - 1;
            node.end = at.end + 1;
            event->text = chat_json_string(&doc, &node);
            forms->reader->calls.failed |= event->text.data == NULL;
        }
    }

    if (forms->dialect->piece != NULL) {
        forms->dialect->piece(form->call, event->text);
    }
}


size_t
chat_forms_read(chat_forms_t *forms, chat_str_t input, size_t max,
                chat_event_t *event, size_t *frames)
{
    size_t             i, n = 0, len = 0, most = *frames, which = forms->last;
    chat_str_t         raw;
    chat_form_t       *form = NULL;
    chat_form_values_t values, found = { { 0, 0 }, { 0, 0 } };

    *frames = 0;
    input.len = input.len < max ? input.len : max;

    /* the form that matched last, then the others */
    for (i = 0; i <= forms->count && n == 0; which = i++) {
        form = &forms->list[which];
        n = which < forms->count ? match(form, input, &found) : 0;
        forms->last = n != 0 ? which : forms->last;
    }

    if (n == 0) {
        return 0;
    }

    do {
        raw = chat_str(input.data + len, n);
        values = found;
        take_number(forms, form, raw, values.number);
        len += n;
        forms->ends[(*frames)++] = len;
        n = form->call == NULL && *frames < most ? match(
                form, chat_str(input.data + len, input.len - len), &found)
                                                 : 0;
    } while (n != 0);

    say(forms, form, raw, values.text, event);
    return len;
}


/*
 * Adds the values within node, at this offset of the frame, that may be any.
 * 0: there are too many, or the reader looked at a value as a whole.
 */
static int
add_holes(chat_form_t *form, const chat_json_t *node, uint32_t offset,
          const chat_json_t *text, const chat_json_t *number)
{
    int                quotes = node->type == CHAT_JSON_STRING;
    chat_form_hole_t  *hole = &form->holes[form->count];
    const chat_json_t *child;

    if (node->child != NULL) {
        for (child = node->child; child != NULL; child = child->next) {
            if (!add_holes(form, child, offset, text, number)) {
                return 0;
            }
        }

        return !node->read;
    }

    if ((node->type != CHAT_JSON_STRING && node->type != CHAT_JSON_NUMBER)
        || (node->read && node != text && node != number))
    {
        return 1;
    }

    if (form->count++ == CHAT_FORM_HOLES) {
        return 0;
    }

    hole->type = node->type;
    hole->at.start = offset + node->start + quotes;
    hole->at.end = offset + node->end - quotes;
    form->text = node == text ? form->count : form->text;
    form->number = node == number && !quotes ? form->count : form->number;

    return 1;
}


/* 1 if the frame did nothing but, perhaps, add to the arguments of a call. */
static int
is_constant(const chat_reader_t *reader)
{
    const chat_event_t *event = reader->events->items;

    if (reader->changed || reader->events->count > 1) {
        return 0;
    }

    return reader->events->count == 0 || event->type == CHAT_EVENT_OPAQUE
           || (event->type == CHAT_EVENT_CALL_ARGS
               && (event->node != NULL || event->text.len == 0));
}


/* 1 if all lines end in LF, one is the data, none an id, and there is room. */
static int
is_plain(const chat_frame_t *frame)
{
    const unsigned char *end = frame->raw.data + frame->raw.len;

    return frame->raw.len <= CHAT_FORM_BYTES && !frame->bom
           && frame->raw.len > 2 && memcmp(end - 2, "\n\n", 2) == 0
           && frame->data.data > frame->raw.data && frame->data.data < end
           && memchr(frame->raw.data, '\r', frame->raw.len) == NULL
           && !chat_str_starts(frame->raw, "id")
           && !chat_str_has(frame->raw, "\nid");
}


void
chat_forms_learn(chat_forms_t *forms, const chat_frame_t *frame)
{
    uint32_t             offset;
    chat_form_t         *form = &forms->list[forms->next];
    const chat_reader_t *reader = forms->reader;
    const chat_event_t  *event = reader->events->items;

    if (!is_constant(reader)) {
        forms->count = 0;
        forms->next = 0;
        return;
    }

    if (reader->doc == NULL || event == NULL || frame == NULL
        || !is_plain(frame)) {
        return;
    }

    offset = (uint32_t) (frame->data.data - frame->raw.data);
    memset(form, 0, offsetof(chat_form_t, holes));
    form->call = event->call;

    if (!add_holes(form, reader->doc->root, offset, event->node,
                   reader->number_node))
    {
        memset(form, 0, offsetof(chat_form_t, holes));
        return;
    }

    form->len = frame->raw.len;
    memcpy(form->bytes, frame->raw.data, form->len);
    forms->next = (forms->next + 1) % CHAT_FORMS;
    forms->count += forms->count < CHAT_FORMS;
}
