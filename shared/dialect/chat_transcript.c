/*
 * chat_transcript.c: reads transcripts, and inserts results into them.
 *
 * One pass collects all calls and gives each result to its calls. Then steps
 * that no request will ask for are removed, and only of the calls that remain
 * results are read; names and arguments are, when they are first asked for.
 */

#include "dialect/chat_transcript.h"
#include "json/chat_json_scan.h"

#define CHAT_TRANSCRIPT_FEW 8 /* calls that are compared, not indexed */


void
chat_transcript_fail(chat_transcript_t *t, chat_rc_e rc)
{
    t->rc = t->rc == CHAT_OK ? rc : t->rc;
}


/* ---- the user's words ---- */


/*
 * Digests the words of a message, whether they stand as a string or in parts:
 * some clients rewrite one as the other.
 */
static void
digest_words(chat_transcript_t *t, const chat_json_t *content,
             chat_digest_t *out)
{
    chat_str_t         words;
    chat_buf_t        *text = chat_buf_scratch();
    chat_part_e        what;
    const chat_json_t *part = chat_list_first(content);

    if (t->form->part == NULL) {
        chat_json_canon(&t->brief, content, text);
        part = NULL;

    } else if (content != NULL && content->type == CHAT_JSON_STRING) {
        words = chat_json_string(&t->brief, content);
        chat_buf_format(text, "%d:%v", (uint64_t) words.len, words);
    }

    for (/* void */; part != NULL; part = chat_list_next(content, part)) {
        what = t->form->part(&t->brief, part, &words);

        if (what == CHAT_PART_WORDS) {
            chat_json_canon(&t->brief, part, text);
        } else if (what != CHAT_PART_RESULT) {
            chat_buf_format(text, "%d:%v", (uint64_t) words.len, words);
        }
    }

    chat_digest(chat_buf_str(text), out);
    chat_transcript_fail(t, text->failed ? CHAT_ERROR : CHAT_OK);
}


/*
 * Digests the user's words, which name a step of a conversation. The step
 * before it, if there is one, mostly has the same words, and their digest.
 */
static void
name_step(chat_transcript_t *t, chat_step_t *step, const chat_step_t *before)
{
    const chat_json_t *content, *words = step->words;

    if (words == NULL || t->form->content == NULL
        || (!t->rq->named && t->rq->conversation.len == 0))
    {
        return;
    }

    if (before != NULL && before->words == words) {
        step->user_text = before->user_text;
        return;
    }

    /* a body may be words alone, without any message */
    content = words->type == CHAT_JSON_STRING
                  ? words
                  : chat_json_get(t->doc, words, t->form->content);

    digest_words(t, content, &step->user_text);
}


/* ---- reading ---- */


/*
 * 1 if the step has calls that the client answers; open: that it still has to
 * answer, or that have an unknown decision.
 */
static int
has_member(const chat_request_t *rq, const chat_step_t *step, int open)
{
    size_t             i;
    const chat_call_t *call;

    for (i = step->first; i < step->first + step->count; i++) {
        call = &rq->calls[i];

        if (open ? call->undecided
                       || (chat_call_is_member(call)
                           && (call->result == NULL
                               || call->outcome == CHAT_OUTCOME_PARTIAL))
                 : chat_call_is_member(call))
        {
            return 1;
        }
    }

    return 0;
}


/* Begins the step of the present run; its first call has this id. */
static void
begin_step(chat_transcript_t *t, chat_str_t id)
{
    chat_step_t    *step;
    chat_request_t *rq = t->rq;

    /* the step before this one gets no more results: it will be kept */
    if (rq->ncalls > CHAT_CALLS_MAX && !t->form->late) {
        step = &rq->steps[rq->nsteps - 1];
        t->nkept += has_member(rq, step, 1) ? step->count : 0;
    }

    chat_transcript_fail(t, t->nkept > CHAT_CALLS_MAX ? CHAT_LIMIT : CHAT_OK);

    step = chat_request_add_step(rq, t->scratch);
    if (step == NULL) {
        chat_transcript_fail(t, CHAT_ERROR);
        return;
    }

    step->words = rq->next.words;
    step->since = rq->next.since - 1;
    step->first_id = id;
    t->has_step = 1;
}


/* A further call of the last step; NULL: the transcript has failed. */
static chat_call_t *
add_call(chat_transcript_t *t, chat_arena_t *arena, const chat_json_t *node,
         chat_str_t id)
{
    chat_call_t *call =
        t->rc == CHAT_OK ? chat_request_add_call(t->rq, arena) : NULL;

    if (call == NULL) {
        chat_transcript_fail(t, CHAT_ERROR);
        return NULL;
    }

    call->node = node;
    call->id = id;
    call->ready = call->awaits = 1;
    return call;
}


chat_call_t *
chat_transcript_call(chat_transcript_t *t, const chat_json_t *node,
                     chat_str_t id)
{
    if (!t->has_step) {
        begin_step(t, id);
    }

    return add_call(t, t->scratch, node, id);
}


void
chat_transcript_bare(chat_transcript_t *t, chat_str_t id,
                     const chat_json_t *result)
{
    chat_call_t *call;

    if (t->rq->ncalls >= CHAT_CALLS_MAX) {
        chat_transcript_fail(t, CHAT_LIMIT);
    }

    call = add_call(t, t->arena, result, id);
    if (call != NULL) {
        call->bare = 1;
        call->place = result;
        call->result = result;
        t->form->result(t, call);
    }
}


/* Gives the result of this id to the call, if that awaits it. 1: it did. */
static inline int
give(chat_call_t *call, chat_str_t id, int approval, const chat_json_t *result,
     const chat_json_t *place)
{
    if (!call->awaits || (call->kind == CHAT_KIND_APPROVAL) != approval
        || !chat_str_eq(call->id, id))
    {
        return 0;
    }

    call->awaits = 0;
    call->result = result;
    call->place = place;
    return 1;
}


/* The entry of this id in an index of all calls so far; NULL: none has it. */
static chat_table_entry_t *
find_calls(chat_transcript_t *t, chat_str_t id, int approval)
{
    chat_call_t        *call;
    chat_table_entry_t *entry;

    while (t->nindexed < t->rq->ncalls) {
        call = &t->rq->calls[t->nindexed++];

        if (call->awaits && call->id.len != 0) {
            entry = chat_table_put(&t->ids[call->kind == CHAT_KIND_APPROVAL],
                                   call->id);
            if (entry == NULL) {
                chat_transcript_fail(t, CHAT_ERROR);
                return NULL;
            }

            call->earlier = (uint32_t) entry->number;
            entry->number = t->nindexed;
        }
    }

    return chat_table_find(&t->ids[approval], id);
}


void
chat_transcript_result(chat_transcript_t *t, chat_str_t id, chat_kind_e kind,
                       const chat_json_t *result, const chat_json_t *place)
{
    int                 few, found = 0, approval = kind == CHAT_KIND_APPROVAL;
    size_t              i, least;
    chat_call_t        *call;
    chat_request_t     *rq = t->rq;
    chat_table_entry_t *entry;

    if (rq->chained) {
        chat_transcript_bare(t, id, result);
        return;
    }

    if (rq->nsteps == 0 || id.len == 0 || !(t->form->late || t->has_step)) {
        return;
    }

    few = rq->steps[rq->nsteps - 1].count <= CHAT_TRANSCRIPT_FEW;

    for (i = rq->steps[rq->nsteps - 1].first; few && i < rq->ncalls; i++) {
        found |= give(&rq->calls[i], id, approval, result, place);
    }

    /* of the newest step that has such calls */
    least = t->form->late ? 0 : rq->nsteps - 1;
    entry =
        !found && (t->form->late || !few) ? find_calls(t, id, approval) : NULL;

    while (entry != NULL && entry->number != 0) {
        call = &rq->calls[entry->number - 1];
        if (call->step < least) {
            break;
        }

        if (give(call, id, approval, result, place)) {
            least = call->step;
            found = 1;
        }

        entry->number = call->earlier;
    }

    t->matched += (size_t) found;
}


void
chat_transcript_message(chat_transcript_t *t)
{
    chat_transcript_result(t, chat_json_string(t->doc, t->id),
                           CHAT_KIND_CLIENT, t->message, t->message);
}


/* The last run and its results are over. */
static void
end_step(chat_transcript_t *t)
{
    if (t->rc == CHAT_OK && t->has_step && t->form->match != NULL) {
        t->form->match(t);
    }
}


static void
read_assistant(chat_transcript_t *t)
{
    if (!t->in_run || !t->form->runs) {
        end_step(t);
        t->rq->next.since++;
        t->has_step = 0;
    }

    t->in_run = 1;
    t->mixed = 0;
    t->matched = 0;
    memset(t->tail, 0, sizeof(t->tail));

    t->assistant = t->message;
    t->behind = chat_list_next(t->list, t->message);
    t->form->calls(t);

    if (t->has_step) {
        t->rq->steps[t->rq->nsteps - 1].last = t->message;
    }
}


/* Words and results can only be in one message where it has parts. */
static int
read_results(chat_transcript_t *t, chat_role_e role)
{
    if (role != CHAT_ROLE_RESULTS
        && (role != CHAT_ROLE_USER || t->form->part == NULL))
    {
        return 0;
    }

    t->has_words = t->member && t->member->type == CHAT_JSON_STRING;
    t->form->results(t);
    return 1;
}


static void
read_message(chat_transcript_t *t)
{
    chat_role_e role = t->form->role(t);

    if (role == CHAT_ROLE_ASIDE) {
        return;
    }

    /* a message of the user without words brings results alone */
    if (read_results(t, role) && !t->has_words) {
        role = CHAT_ROLE_RESULTS;
    }

    t->end = role;

    if (role == CHAT_ROLE_ASSISTANT) {
        read_assistant(t);
        return;
    }

    t->in_run = 0;
    t->mixed |= role == CHAT_ROLE_RESULTS
                && t->tail[CHAT_ROLE_USER] + t->tail[CHAT_ROLE_SYSTEM] != 0;
    t->tail[role]++;

    if (role == CHAT_ROLE_USER) {
        t->rq->next.words = t->message;
        t->rq->next.since = 0;
    }

    if (role == CHAT_ROLE_USER || role == CHAT_ROLE_SYSTEM) {
        t->rq->turn = t->rq->ncalls;
    }
}


static void
set_class(chat_transcript_t *t)
{
    chat_request_t *rq = t->rq;

    if (t->form->class != NULL) {
        t->form->class(t);

    } else {
        if (t->end == CHAT_ROLE_USER || t->end == CHAT_ROLE_SYSTEM) {
            rq->class = CHAT_CLASS_FRESH;

        } else if (t->end == CHAT_ROLE_RESULTS) {
            rq->class = t->mixed ? t->form->mixed : CHAT_CLASS_CONTINUATION;
        }

        rq->answers = t->has_step && rq->class != CHAT_CLASS_OTHER
                      && t->tail[CHAT_ROLE_OTHER] == 0
                      && !(t->mixed && t->form->mixed == CHAT_CLASS_OTHER);
    }

    if (rq->class == CHAT_CLASS_FRESH && rq->nsteps != 0) {
        rq->answers &= has_member(rq, &rq->steps[rq->nsteps - 1], 0);
    }
}


/* ---- what is kept ---- */


/*
 * Sets what a call's result says. Calls that share a result copy what the
 * first of them says: earlier, the call of this id before it in the step.
 */
static void
keep_result(chat_transcript_t *t, chat_call_t *call,
            const chat_call_t *earlier)
{
    if (earlier == NULL || earlier->result != call->result) {
        t->form->result(t, call);
        return;
    }

    call->outcome = earlier->outcome;
    call->payload = earlier->payload;
    call->said = earlier->said;
    call->value = earlier->value;
    call->hash = earlier->hash;
    call->approval = earlier->approval;
    call->reason = earlier->reason;
}


/*
 * Copies the step with its calls to the end of those that are kept, and fills
 * these. A call's place becomes that behind which its result stands or
 * belongs: behind the result before it or the run, or NULL for the front.
 */
static void
keep_step(chat_transcript_t *t, const chat_step_t *from,
          const chat_call_t *calls)
{
    size_t             i;
    chat_call_t       *call;
    chat_step_t       *step = &t->rq->steps[t->rq->nsteps];
    chat_request_t    *rq = t->rq;
    const chat_json_t *args, *place = t->form->part ? NULL : from->last;

    *step = *from;
    step->first = rq->ncalls;

    for (i = 0; i < step->count && t->rc == CHAT_OK; i++) {
        call = &rq->calls[rq->ncalls++];
        *call = calls[from->first + i];
        call->step = (uint32_t) rq->nsteps;
        place = call->place ? call->place : place;
        call->place = place;

        call->text =
            call->joined ? call->text : chat_json_raw(t->doc, call->node);
        call->args = t->form->args;
        call->quoted |= t->form->quoted;

        /* what is read later may stand there twice */
        if (!t->form->unique
            && (call->node->has & (CHAT_JSON_VARIED | CHAT_JSON_KEYS)) != 0)
        {
            (void) call->args(&t->brief, call->node, &args);
        }

        if (call->result != NULL) {
            keep_result(t, call,
                        call->earlier > from->first
                            ? call - (from->first + i + 1 - call->earlier)
                            : NULL);
        }
    }

    name_step(t, step, rq->nsteps++ != 0 ? step - 1 : NULL);
}


/* Those of this turn, open ones, and the one that the body answers. */
static int
is_kept(const chat_transcript_t *t, const chat_step_t *step)
{
    const chat_request_t *rq = t->rq;

    return step->first >= rq->turn
           || (rq->answers && step == &rq->steps[rq->nsteps - 1])
           || has_member(rq, step, 1);
}


/* Keeps some of the steps, in arrays of just their size. */
static void
keep_steps(chat_transcript_t *t)
{
    size_t          i, n = 0, ncalls = 0, turn = 0, nsteps = t->rq->nsteps;
    chat_request_t *rq = t->rq;
    chat_step_t    *steps = rq->steps;
    chat_call_t    *calls = rq->calls;

    for (i = 0; i < nsteps; i++) {
        steps[i].count = is_kept(t, &steps[i]) ? steps[i].count : 0;
        ncalls += steps[i].count;
        turn += steps[i].first < rq->turn ? steps[i].count : 0;
        n += steps[i].count != 0;
    }

    if (ncalls > CHAT_CALLS_MAX) {
        chat_transcript_fail(t, CHAT_LIMIT);
        return;
    }

    rq->turn = turn;
    rq->nsteps = rq->ncalls = 0;
    rq->steps_size = n;
    rq->calls_size = ncalls;
    rq->steps = chat_arena_take(t->arena, n * sizeof(*steps));
    rq->calls = chat_arena_take(t->arena, ncalls * sizeof(*calls));
    if (rq->steps == NULL || rq->calls == NULL) {
        chat_transcript_fail(t, CHAT_ERROR);
    }

    for (i = 0; i < nsteps && t->rc == CHAT_OK; i++) {
        if (steps[i].count != 0) {
            keep_step(t, &steps[i], calls);
        }
    }

    name_step(t, &rq->next, rq->nsteps ? &rq->steps[rq->nsteps - 1] : NULL);
}


void
chat_transcript_read(chat_transcript_t *t, const chat_json_t *list)
{
    t->list = list;
    t->behind = chat_list_first(list);

    for (t->message = t->behind; t->message != NULL && t->rc == CHAT_OK;
         t->message = chat_list_next(list, t->message))
    {
        read_message(t);
    }

    end_step(t);

    if (t->rc == CHAT_OK) {
        set_class(t);
        keep_steps(t);
    }
}


void
chat_transcript_chain(chat_transcript_t *t, chat_str_t chain)
{
    /* without memory the list of steps may be gone */
    chat_step_t *step =
        t->rc == CHAT_OK ? chat_request_add_step(t->rq, t->arena) : NULL;

    if (step == NULL) {
        chat_transcript_fail(t, CHAT_ERROR);
        return;
    }

    step->chain = chain;
    t->rq->chained = 1;
}


void
chat_transcript_tail(chat_transcript_t *t, chat_str_t chain)
{
    chat_transcript_chain(t, chain);

    for (t->message = t->behind; t->message != NULL && t->rc == CHAT_OK;
         t->message = chat_list_next(t->list, t->message))
    {
        (void) read_results(t, t->form->role(t));
    }

    if (t->tail[CHAT_ROLE_USER] != 0) {
        t->rq->turn = t->rq->ncalls;
    }
}


void
chat_transcript_end(chat_transcript_t *t)
{
    size_t             i, n = 0;
    chat_request_t    *rq = t->rq;
    const chat_step_t *step;

    if (t->rc != CHAT_OK) {
        return;
    }

    if (rq->answers) {
        step = &rq->steps[rq->nsteps - 1];

        for (i = step->first; i < step->first + step->count; i++) {
            n += rq->calls[i].outcome != CHAT_OUTCOME_NONE;
        }
    }

    if (rq->class == CHAT_CLASS_CONTINUATION && n == 0) {
        rq->class = CHAT_CLASS_OTHER;
    }

    rq->answers &= rq->class != CHAT_CLASS_OTHER;
}


/* ---- comparing transcripts ---- */

/* Adds what has been said to the digest. Only this message begins a row. */
static void
digest_said(chat_transcript_digest_t *to, const chat_json_t *message)
{
    chat_mix_add(&to->mix,
                 to->text->len != 0 ? chat_buf_str(to->text) : to->row);
    chat_arena_reset(to->doc.arena);
    to->row = chat_str(chat_json_raw(&to->doc, message).data, 0);
    to->text->len = 0;
}


/* Says the canonical form of a message and a comma, in a row or as text. */
static void
say_message(chat_transcript_digest_t *to, const chat_json_t *message)
{
    chat_str_t own = chat_json_raw(&to->doc, message);

    if ((message->has & CHAT_JSON_VARIED) == 0 && own.data[own.len] == ','
        && own.data == to->row.data + to->row.len)
    {
        to->row.len += own.len + 1;
    } else {
        chat_buf_add(to->text, to->row);
        chat_json_canon(&to->doc, message, to->text);
        chat_buf_puts(to->text, ",");
        to->row.len = 0;
    }
}


void
chat_transcript_digest(const chat_transcript_form_t *form,
                       const chat_request_t *rq, chat_transcript_digest_t *to)
{
    const chat_call_t *call = &rq->calls[rq->steps[rq->nsteps - 1].first];
    uint32_t           until = call->node != NULL ? call->node->start : 0;
    const chat_json_t *message,
        *list = chat_json_get(&to->doc, to->doc.root, form->list);

    list = list ? list : chat_json_get(&to->doc, to->doc.root, "message");
    message = chat_list_first(list);
    digest_said(to, message);

    while (message != NULL && message->start < until) {
        if (form->says != NULL) {
            form->says(to, message, until);
        } else if (message->end <= until) {
            say_message(to, message);
        }

        message = chat_list_next(list, message);

        if (to->text->len + to->row.len >= CHAT_TRANSCRIPT_TEXT) {
            digest_said(to, message);
        }
    }

    digest_said(to, NULL);
}


/* ---- inserting results ---- */


void
chat_result_error_text(const chat_result_t *result, chat_buf_t *out)
{
    size_t from = out->len;

    chat_buf_format(out, "{\"error\":%v}", result->payload);
    chat_buf_quote(out, from);
}


typedef struct {
    const chat_transcript_form_t *form;
    chat_json_doc_t              *doc;
    const chat_request_t         *rq;
    chat_edits_t                 *edits;
    const chat_json_t            *list;
    const chat_json_t            *message; /* of the present call */
    chat_front_t                  front;   /* of the present step, */
    int                           open;    /* if results went there */
} chat_splice_t;


/* Ends the results at the front of a step. */
static void
close_front(chat_splice_t *s)
{
    if (s->open && s->front.close.len != 0) {
        chat_edits_add(s->edits, s->front.pos, s->front.len, s->front.close);
    }

    s->open = 0;
}


/* Finds the front of the call's step; call is NULL for a chained one. */
static chat_rc_e
find_front(chat_splice_t *s, const chat_call_t *call)
{
    s->front = (chat_front_t){ .open = "" };

    if (call == NULL) {
        return s->form->front(s->doc, NULL, &s->front);
    }

    /* calls stand in the order of the body */
    while (s->message != NULL && s->message->end < call->node->end) {
        s->message = chat_list_next(s->list, s->message);
    }

    return s->message != NULL ? s->form->front(s->doc, s->message, &s->front)
                              : CHAT_BAD;
}


/* Edits at one position are applied in the order in which they were added. */
static chat_rc_e
insert(chat_splice_t *s, const chat_result_t *result, const chat_json_t *place)
{
    chat_rc_e       rc = CHAT_OK;
    chat_buf_t      text = { 0 };
    chat_json_doc_t payload = { 0 };

    if (result->payload.len != 0 || result->outcome != CHAT_OUTCOME_NONE) {
        rc = chat_json_parse(&payload, s->edits->arena, result->payload);
        rc = rc == CHAT_LIMIT ? CHAT_BAD : rc;
    }

    if (rc == CHAT_OK && place == NULL && !s->open) {
        rc = find_front(s, result->call);
        chat_buf_puts(&text, s->front.open);

    } else {
        chat_buf_puts(&text, ",");
    }

    if (rc == CHAT_OK) {
        rc = result->outcome != CHAT_OUTCOME_NONE || s->form->decides
                 ? s->form->write(s->doc, result, &payload, &text)
                 : CHAT_DECLINED;
    }

    if (rc == CHAT_OK) {
        s->open |= place == NULL;
        s->edits->failed |= text.failed || payload.failed;
        rc = chat_edits_add(s->edits, place ? place->end : s->front.pos, 0,
                            chat_buf_str(&text));
    }

    chat_buf_free(&text);

    return rc == CHAT_DECLINED ? CHAT_OK : rc;
}


/*
 * Inserts the results of the body's calls that are messages or parts of their
 * own. Of the calls of one id in a step only the first takes a result, unless
 * the provider wants one for each.
 */
static chat_rc_e
insert_all(chat_splice_t *s, const chat_result_t *results, size_t n)
{
    size_t                i;
    chat_rc_e             rc = CHAT_OK;
    chat_table_t          ids; /* number: the last step that has it, from 1 */
    const chat_call_t    *call, *calls = s->rq->calls;
    chat_table_entry_t   *entry;
    const chat_result_t **map; /* the result of each call, or NULL */

    map =
        chat_arena_alloc(s->edits->arena, (s->rq->ncalls + 1) * sizeof(*map));
    if (map == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < n; i++) {
        call = results[i].call;

        if (call != NULL && !chat_call_is_settled(call)
            && map[call - calls] == NULL) {
            map[call - calls] = &results[i];
        }
    }

    chat_table_init(&ids, s->edits->arena);

    for (i = 0; i < s->rq->ncalls && rc == CHAT_OK; i++) {
        call = &calls[i];

        if (i != 0 && call->step != call[-1].step) {
            close_front(s);
        }

        if (!s->form->each && chat_call_is_member(call)) {
            entry = chat_table_put(&ids, call->id);
            if (entry == NULL) {
                return CHAT_ERROR;
            }

            map[i] = entry->number != call->step + 1 ? map[i] : NULL;
            entry->number = call->step + 1;
        }

        if (map[i] != NULL) {
            rc = insert(s, map[i], call->place);
        }
    }

    close_front(s);

    return rc;
}


/* Changes the call of the result, or the result that the body has for it. */
static chat_rc_e
change(const chat_splice_t *s, const chat_result_t *result)
{
    chat_rc_e          rc;
    chat_buf_t         text = { 0 };
    const chat_json_t *node = result->call->node;

    if (s->form->rewrite == NULL
        || (s->form->write != NULL && !chat_call_is_settled(result->call)))
    {
        return CHAT_OK;
    }

    rc = s->form->rewrite(s->doc, result, &node, &text);
    if (rc == CHAT_OK) {
        s->edits->failed |= text.failed;
        rc = chat_edits_add(s->edits, node->start, node->end - node->start,
                            chat_buf_str(&text));
    }

    chat_buf_free(&text);

    return rc == CHAT_DECLINED ? CHAT_OK : rc;
}


chat_rc_e
chat_transcript_splice(const chat_transcript_form_t *form,
                       chat_json_doc_t *doc, const chat_request_t *rq,
                       const chat_result_t *results, size_t n,
                       chat_edits_t *edits)
{
    size_t        i;
    chat_rc_e     rc = CHAT_OK;
    chat_splice_t s = { .form = form, .doc = doc, .rq = rq, .edits = edits };

    if (n == 0) {
        return CHAT_OK;
    }

    s.list = chat_json_get(doc, doc->root, form->list);
    s.message = chat_list_first(s.list);

    if (form->write != NULL) {
        rc = insert_all(&s, results, n);
    }

    for (i = 0; i < n && rc == CHAT_OK; i++) {
        if (results[i].call == NULL && !rq->chained) {
            rc = CHAT_BAD;

        } else if (results[i].call == NULL && form->write != NULL) {
            rc = insert(&s, &results[i],
                        results[i].after ? results[i].after->place : NULL);
        }
    }

    close_front(&s);

    /* the front can be where a changed result begins: it comes first */
    for (i = 0; i < n && rc == CHAT_OK; i++) {
        if (results[i].call != NULL) {
            rc = change(&s, &results[i]);
        }
    }

    return rc;
}
