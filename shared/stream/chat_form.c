/*
 * chat_form.c: see chat_form.h.
 *
 * The accessors of chat_json mark what a reader looks at. All other values may
 * differ, but most are the same in each frame, and compared with what is
 * around them in one go. One that has differed is a hole from then on: it is
 * scanned, by the rules of the JSON parser.
 */

#include "stream/chat_form.h"
#include "bytes/chat_word.h"
#include "json/chat_json_scan.h"

#define CHAT_FORM_DIGITS 9 /* of a sequence number: it is below 2^31 */


/* What a frame has for the reader, if its form has it. */
typedef struct {
    chat_str_t piece; /* between its quotes, escaped as it is */
    unsigned   has;   /* the piece: see chat_json_string_end() */
    chat_str_t number;
} chat_form_values_t;

static size_t form_ends[CHAT_FORM_RUN]; /* of frames just read, of a stream */


/* The end of a number of few digits; NULL: it is another one. */
static const unsigned char *
index_end(const unsigned char *p, const unsigned char *end, chat_str_t *number)
{
    const unsigned char *start = p;

    while (p < end && *p >= '0' && *p <= '9') {
        p++;
    }

    *number = chat_str(start, (size_t) (p - start));
    return p != start && p - start <= CHAT_FORM_DIGITS
                   && (*start != '0' || p - start == 1)
               ? p
               : NULL;
}


/* The end of strings and numbers with commas; NULL: there is another value. */
static const unsigned char *
list_end(const unsigned char *p, const unsigned char *end)
{
    unsigned has = 0;

    for (;; p++) {
        while (p < end && *p == ' ') {
            p++;
        }

        if (p < end && *p == '"') {
            p = chat_json_string_end(p + 1, end, &has, 1);
            if (p != NULL && p < end) {
                p++;
            }
        } else {
            p = chat_json_number_end(p, end, &has);
        }

        if (p == NULL || p == end || *p != ',') {
            return p;
        }
    }
}


/* The end of the value at p, which takes a hole; NULL: it does not fit. */
static inline __attribute__((always_inline)) const unsigned char *
value_end(chat_form_e type, const unsigned char *p, const unsigned char *end,
          chat_form_values_t *values)
{
    unsigned             has = 0;
    const unsigned char *start = p;

    if (type <= CHAT_FORM_PIECE) {
        p = chat_json_string_end(p, end, &has, 1);
        if (type == CHAT_FORM_PIECE) {
            values->piece = chat_str(start, p ? (size_t) (p - start) : 0);
            values->has = has;
        }
        return p;
    }

    return type == CHAT_FORM_LIST     ? list_end(p, end)
           : type == CHAT_FORM_NUMBER ? chat_json_number_end(p, end, &has)
                                      : index_end(p, end, &values->number);
}


/* Behind these bytes of the form at p; NULL: there are others. */
static inline const unsigned char *
bytes_end(const chat_form_t *form, size_t from, size_t to,
          const unsigned char *p, const unsigned char *end)
{
    return to - from <= (size_t) (end - p)
                   && memcmp(form->bytes + from, p, to - from) == 0
               ? p + (to - from)
               : NULL;
}


/* 1 if the input ends within the bytes before this hole. */
static int
is_partial(const chat_form_t *form, const chat_form_value_t *hole,
           const unsigned char *p, const unsigned char *end)
{
    size_t from = hole == form->holes ? 0 : hole[-1].at.end;
    size_t to = from + (size_t) (end - p);

    return to < hole->at.start && bytes_end(form, from, to, p, end) != NULL;
}


/*
 * Reads the frames of this form that input begins with, at most so many; sets
 * their ends and values, and forms->partial. Returns their number. What stands
 * behind the last hole is compared in one go with what begins the next frame.
 */
static size_t
match(chat_forms_t *forms, chat_form_t *form, chat_str_t input,
      chat_form_values_t *values, size_t most)
{
    size_t              *next = form_ends, *last = next + most;
    chat_form_value_t   *hole = form->holes, *over = hole + form->nholes;
    const unsigned char *at = input.data, *end = at + input.len;
    const unsigned char *p = bytes_end(form, 0, hole->at.start, at, end);
    const unsigned char *first = p;

    over->at.start = (uint32_t) form->len + hole->at.start;

    while (p != NULL && next != last
           && (at = value_end(hole->type, p, end, values)) != NULL)
    {
        hole++;
        p = bytes_end(form, hole[-1].at.end, hole->at.start, at, end);

        if (hole == over && p != NULL) {
            *next++ = (size_t) (p - first);
            hole = form->holes;
            values++;
        }
    }

    forms->partial = p ? p == end : is_partial(form, hole, at, end);

    if (hole == over
        && (p = bytes_end(form, hole[-1].at.end, form->len, at, end)) != NULL)
    {
        *next++ = (size_t) (p - input.data);
    }

    return (size_t) (next - form_ends);
}


/* How many of their first len bytes two texts have in common. */
static size_t
common(const unsigned char *one, const unsigned char *two, size_t len)
{
    size_t   i;
    uint64_t differ;

    for (i = 0; len - i >= sizeof(differ); i += sizeof(differ)) {
        differ = chat_word_at(one + i) ^ chat_word_at(two + i);
        if (differ != 0) {
            return i + chat_word_first(differ);
        }
    }

    while (i < len && one[i] == two[i]) {
        i++;
    }

    return i;
}


/* Makes hole number n of the value that has this byte. 0: there is none. */
static int
add_hole(chat_form_t *form, size_t n, size_t byte)
{
    size_t i;

    for (i = form->nsame; i-- > 0; /* void */) {
        if (form->same[i].at.start <= byte && byte <= form->same[i].at.end) {
            memmove(&form->holes[n + 1], &form->holes[n],
                    (form->nholes++ - n) * sizeof(form->holes[0]));
            form->holes[n] = form->same[i];
            form->same[i] = form->same[--form->nsame];
            return 1;
        }
    }

    return 0;
}


/*
 * Makes holes of the values in which the frame that input begins with differs
 * from the learnt one. 0: it differs in more than that.
 */
static int
loosen(chat_form_t *form, chat_str_t input)
{
    size_t               n, len, left, same, from = 0;
    const unsigned char *p = input.data, *end = p + input.len;
    chat_form_values_t   values;

    for (n = 0; p != NULL; n++) {
        len = (n == form->nholes ? form->len : form->holes[n].at.start) - from;
        left = (size_t) (end - p);
        same = common(form->bytes + from, p, len < left ? len : left);

        if (same == len && n == form->nholes) {
            return 1;
        }

        p += same;
        if (same != len) {
            if (same == left || !add_hole(form, n, from + same)) {
                return 0;
            }

            p -= from + same - form->holes[n].at.start;
        }

        p = value_end(form->holes[n].type, p, end, &values);
        from = form->holes[n].at.end;
    }

    return 0;
}


/* The pieces of n frames as one; without memory the calls fail. */
static chat_str_t
join(const chat_forms_t *forms, const chat_form_values_t *values, size_t n)
{
    size_t         i, len = 0;
    chat_str_t     piece;
    unsigned char *text, *p;

    for (i = 0; i < n; i++) {
        len += values[i].piece.len;
    }

    text = chat_arena_alloc(forms->arena, len + CHAT_JSON_ROOM);
    if (text == NULL) {
        forms->reader->calls.failed = 1;
        return chat_str(NULL, 0);
    }

    for (i = 0, p = text; i < n; i++) {
        piece = values[i].piece;

        p = values[i].has == 0 || forms->dialect->raw_pieces
                ? chat_str_copy(p, piece)
                : chat_json_unescape(piece, p);
    }

    return chat_str(text, (size_t) (p - text));
}


/* As match(), with the form that fits. */
static size_t
find(chat_forms_t *forms, chat_str_t input, chat_form_values_t *values,
     size_t most)
{
    size_t     i, n;
    chat_str_t near = input;

    /* the one that matched last, then those behind it */
    for (i = 0; i < forms->count; i++) {
        n = match(forms, forms->list[forms->last], near, values, most);
        if (n != 0 || forms->partial) {
            forms->partial &= near.len == input.len;
            return n;
        }

        near.len = input.len < CHAT_FORM_LONG ? input.len : CHAT_FORM_LONG;
        forms->last = (forms->last + 1) % forms->count;
    }

    for (i = 0; i < forms->count; i++) {
        if (loosen(forms->list[i], near)) {
            forms->last = i;
            return match(forms, forms->list[i], input, values, most);
        }
    }

    return 0;
}


size_t
chat_forms_read(chat_forms_t *forms, chat_str_t input, size_t max,
                chat_event_t *event, size_t *frames)
{
    size_t             n;
    uint64_t           number = forms->reader->number;
    chat_str_t         text = { NULL, 0 };
    const chat_form_t *form;
    chat_form_values_t values[CHAT_FORM_RUN];

    n = find(forms, chat_str(input.data, input.len < max ? input.len : max),
             values, *frames);
    forms->ends = form_ends;
    forms->partial &= input.len <= max;
    *frames = n;

    if (n == 0) {
        return 0;
    }

    form = forms->list[forms->last];
    text = form->has_piece ? join(forms, values, n) : text;
    if (form->has_number) {
        (void) chat_str_number(values[n - 1].number, &number);
    }

    forms->reader->number = (uint32_t) number;
    *event = form->event;
    event->text = text;
    return form_ends[n - 1];
}


/*
 * Adds the values of node and of those behind it, at this offset of the frame,
 * that may be any. 0: too many, or the reader looked at a value as a whole.
 */
static int
add_values(chat_form_t *form, const chat_json_t *node, uint32_t offset,
           const chat_reader_t *reader)
{
    int                ends;
    chat_form_value_t  value;
    const chat_json_t *number = reader->number_node;
    const chat_json_t *piece = reader->events->items->node;

    for (/* void */; node != NULL; node = node->next) {
        if (node->child != NULL) {
            if (node->read || !add_values(form, node->child, offset, reader)) {
                return 0;
            }
            continue;
        }

        if ((node->type != CHAT_JSON_STRING && node->type != CHAT_JSON_NUMBER
             && !node->opaque)
            || (node->read && node != piece && node != number))
        {
            continue;
        }

        if (form->nholes + form->nsame == CHAT_FORM_VALUES) {
            return 0;
        }

        ends = node->type != CHAT_JSON_NUMBER;
        value.at.start = offset + node->start + ends;
        value.at.end = offset + node->end - ends;
        value.type = node->opaque ? CHAT_FORM_LIST
                     : ends       ? CHAT_FORM_STRING
                                  : CHAT_FORM_NUMBER;

        if (node == piece || (node == number && !ends)) {
            value.type = node == piece ? CHAT_FORM_PIECE : CHAT_FORM_INDEX;
            form->has_piece |= node == piece;
            form->has_number |= node == number;
            form->holes[form->nholes++] = value;
        } else {
            form->same[form->nsame++] = value;
        }
    }

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


void
chat_forms_learn(chat_forms_t *forms, const chat_frame_t *frame)
{
    uint32_t             offset;
    chat_form_t         *form;
    const chat_reader_t *reader = forms->reader;
    const chat_event_t  *event = reader->events->items;

    if (!is_constant(reader)) {
        forms->count = 0;
        forms->next = 0;
        return;
    }

    if (reader->doc == NULL || reader->events->count == 0 || frame == NULL
        || frame->events != 1 || frame->raw.len > CHAT_FORM_BYTES
        || frame->data.data < frame->raw.data
        || frame->data.data >= frame->raw.data + frame->raw.len)
    {
        return; /* or its data is of several lines */
    }

    form = forms->list[CHAT_FORMS];
    if (form == NULL) {
        form = chat_arena_take(reader->arena, sizeof(*form));
        if (form == NULL) {
            return;
        }
        forms->list[CHAT_FORMS] = form;
    }

    offset = (uint32_t) (frame->data.data - frame->raw.data);
    form->event = *event;
    form->event.node = NULL;
    form->nholes = form->nsame = 0;
    form->has_piece = form->has_number = 0;

    /* mostly it is the last value that differs */
    if (add_values(form, reader->doc->root, offset, reader)
        && (form->nholes != 0
            || (form->nsame != 0
                && add_hole(form, 0, form->same[form->nsame - 1].at.end))))
    {
        form->len = frame->raw.len;
        memcpy(form->bytes, frame->raw.data, form->len);
        memcpy(form->bytes + form->len, frame->raw.data, form->len);
        forms->list[CHAT_FORMS] = forms->list[forms->next];
        forms->list[forms->next] = form;
        forms->last = forms->next;
        forms->next = (forms->next + 1) % CHAT_FORMS;
        forms->count += forms->count < CHAT_FORMS;
    }
}
