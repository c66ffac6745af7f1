/*
 * chat_gate.c: the verdict on a continuation; see chat_gate.h.
 *
 * chat_gate_row() derives the verdict, chat_gate_act() the action. A client
 * that resends endlessly is stopped, by the number of attempts that went
 * upstream within a minute. Their clocks may differ a little.
 */

#include "policy/chat_gate.h"

#define CHAT_LOOP_ATTEMPTS 10
#define CHAT_LOOP_MS 60000


chat_gate_verdict_e
chat_gate_may_claim(const chat_question_t *q, const chat_batch_t *batch,
                    uint32_t k)
{
    size_t                i, recent = 0;
    uint64_t              apart;
    const chat_attempt_t *attempt = batch->attempts;

    /* readers ignore such a claim: the request would claim for ever */
    if (k > CHAT_ATTEMPTS_MAX) {
        return CHAT_GATE_CONFLICT;
    }

    for (i = 0; !q->dialect->provider && i < batch->nattempts; i++, attempt++)
    {
        apart =
            q->now > attempt->ms ? q->now - attempt->ms : attempt->ms - q->now;
        recent += !attempt->is_void && q->now != 0 && attempt->ms != 0
                  && apart < CHAT_LOOP_MS;
    }

    return recent < CHAT_LOOP_ATTEMPTS ? CHAT_GATE_CLAIM : CHAT_GATE_LOOP;
}


/* The input of chat_gate_row(). */
typedef struct {
    chat_question_t    *q;
    const chat_batch_t *batch;
    chat_attempt_t      last; /* with the death of its worker applied */
    int                 lost;
    int                 stream_lost; /* likewise, the stream's worker */
    int                 live;        /* its stream runs and is not sealed */
    int                 lost_step; /* the store knew the step, and forgot it */
    int overruled;      /* the body has another decision than the store */
    int sibling;        /* may share the last attempt's answer */
    int held_elsewhere; /* a member is SOURCE_OTHER */
} chat_look_t;


/* Where the outcome of a member comes from. */
typedef enum {
    SOURCE_NONE,     /* it has none */
    SOURCE_BODY,     /* or the provider has it, or executes the call */
    SOURCE_OVERRULE, /* the body, but its decision is not the stored one */
    SOURCE_RESULT,   /* a stored result that can be merged */
    SOURCE_APPROVAL, /* a stored approval */
    SOURCE_OTHER     /* only another request has it: a result without payload,
                        or an approval that must not be sent again, or what a
                        standing attempt has carried */
} chat_source_e;

/* What the store has for a member without a result in the body; NULL: none. */
static chat_source_e
chat_gate_stored(const chat_batch_t *batch, const chat_member_t *member,
                 chat_kind_e kind, const chat_hash_t *fingerprint)
{
    if (member == NULL) {
        return SOURCE_NONE;
    }

    if (chat_member_has_result(member, fingerprint)) {
        return member->has_payload ? SOURCE_RESULT : SOURCE_OTHER;
    }

    if (member->approval == CHAT_APPROVAL_NONE || kind != CHAT_KIND_APPROVAL) {
        return SOURCE_NONE;
    }

    /* an approval that was sent once may have run its tool */
    return batch->answered.k == 0 ? SOURCE_APPROVAL : SOURCE_OTHER;
}


int
chat_gate_delivered(const chat_question_t *q, const chat_member_t *member)
{
    return q->kept && (q->delivered || member->delivered);
}


/*
 * 1 if a new user message finds all results delivered: an attempt was
 * answered 2xx, or has no answer yet. A result that is inserted twice is worse
 * than one that is left out: the provider refuses each later turn then.
 */
static int
chat_gate_all_delivered(const chat_look_t *look)
{
    const chat_attempt_t *last = &look->last;

    return look->q->fresh
           && (look->batch->answered.k != 0
               || (last->k != 0 && !last->is_void && last->end == CHAT_END_NONE
                   && last->answer < 300));
}


int
chat_gate_overrules(chat_outcome_e outcome, chat_approval_e approval,
                    const chat_member_t *member)
{
    return member != NULL && outcome == CHAT_OUTCOME_NONE
           && chat_approval_is_decided(approval)
           && member->approval != CHAT_APPROVAL_NONE
           && member->approval != approval;
}


/* How many members the store may complete; of a chain all that it has. */
static size_t
chat_gate_nmembers(const chat_question_t *q, const chat_batch_t *batch)
{
    return q->chained ? batch->nmembers
           : q->complete && !q->needs_result && !q->has_decision ? 0
                                                                 : q->nmembers;
}


/* Where the outcome of the i-th of them comes from. */
static chat_source_e
chat_gate_source(const chat_question_t *q, const chat_batch_t *batch, size_t i,
                 chat_str_t *id)
{
    chat_source_e                 stored;
    const chat_member_t          *member;
    const chat_question_member_t *own;

    if (q->chained) {
        member = &batch->members[i];
        own = chat_table_item(&q->index, member->id);
        *id = member->id;

        if (!member->is_call || member->kind == CHAT_KIND_PROVIDER) {
            return SOURCE_BODY;
        }

        if (own == NULL) {
            return chat_gate_delivered(q, member)
                       ? SOURCE_BODY
                       : chat_gate_stored(batch, member, member->kind, NULL);
        }

    } else {
        own = &q->members[i];
        member = chat_batch_find(batch, own->id);
        *id = own->id;
        stored = chat_gate_stored(batch, member, own->kind, &own->fingerprint);

        if (!own->settled || (own->needs_result && stored == SOURCE_RESULT)) {
            return stored;
        }
    }

    return chat_gate_overrules(own->outcome, own->approval, member)
               ? SOURCE_OVERRULE
               : SOURCE_BODY;
}


/*
 * 1 if the attempt that stands has carried a result of the call: it is not
 * missing if the store has lost it.
 */
static int
chat_gate_carries(const chat_attempt_t *last, chat_str_t id)
{
    return last->k != 0 && !last->is_void
           && (last->end == CHAT_END_NONE || last->end == CHAT_END_FINISHED)
           && chat_carried_has(last->results, id);
}


/* Counts what is missing, and whether the store has what the body lacks. */
static void
chat_gate_count(chat_look_t *look, chat_decision_t *out)
{
    size_t        i;
    chat_str_t    id;
    chat_source_e source;

    for (i = 0; i < chat_gate_nmembers(look->q, look->batch); i++) {
        source = chat_gate_source(look->q, look->batch, i, &id);

        if (source == SOURCE_NONE && chat_gate_carries(&look->last, id)) {
            source = SOURCE_OTHER;
        }

        out->missing += source == SOURCE_NONE;
        look->held_elsewhere |= source == SOURCE_OTHER;
        look->overruled |= source == SOURCE_OVERRULE;
        out->merge |= source == SOURCE_RESULT || source == SOURCE_APPROVAL;
    }
}


/*
 * How many calls of the batch the body lists. *unlisted: the client must
 * answer others, too.
 */
static size_t
chat_gate_listed(const chat_look_t *look, int *unlisted)
{
    int                  own;
    size_t               i, listed = 0;
    const chat_member_t *member = look->batch->members;

    *unlisted = 0;

    for (i = 0; i < look->batch->nmembers; i++, member++) {
        own = chat_table_find(&look->q->index, member->id) != NULL;
        listed += member->is_call && own;
        *unlisted |=
            member->is_call && !own && member->kind != CHAT_KIND_PROVIDER;
    }

    return listed;
}


/* The request may claim the next attempt. */
static chat_gate_verdict_e
chat_gate_next(const chat_look_t *look, chat_decision_t *out)
{
    out->k = look->last.k + 1;
    return chat_gate_may_claim(look->q, look->batch, out->k);
}


/* A sibling of an attempt that was answered 2xx. */
static chat_gate_verdict_e
chat_gate_answered(const chat_look_t *look, chat_decision_t *out)
{
    const chat_question_t *q = look->q;

    if (look->last.k > q->answered_k && look->last.k > q->ended_k) {
        return CHAT_GATE_SIBLING;
    }

    /* it came late: it follows the recording, or else gets this verdict */

    out->may_follow = look->last.end == CHAT_END_NONE || !q->dialect->provider
                      || !q->complete;

    if (!q->dialect->provider) {
        return CHAT_GATE_EMPTY;
    }

    if (q->complete) {
        out->reason = CHAT_REASON_PASSED_REPEATED;
        return CHAT_GATE_PASS;
    }

    return look->last.end == CHAT_END_NONE || q->dialect->empty == NULL
               ? CHAT_GATE_CONFLICT
               : CHAT_GATE_EMPTY;
}


/* 1 if the upstream sent the client elsewhere: the batch has no answer yet. */
static int
chat_gate_is_redirected(const chat_attempt_t *attempt)
{
    return attempt->answer >= 300 && attempt->answer < 400;
}


/* The batch is complete, and a request has claimed it. */
static chat_gate_verdict_e
chat_gate_claimed(const chat_look_t *look, chat_decision_t *out)
{
    const chat_attempt_t *last = &look->last;
    int failed = last->end != CHAT_END_NONE && last->end != CHAT_END_FINISHED;

    out->k = last->k;
    out->status = last->answer;
    out->after = last->after;
    out->end = last->end;
    out->lost = look->lost;
    out->recorded = last->answer != 0
                    && (last->recording == CHAT_RECORDING_WANTED
                        || last->recording == CHAT_RECORDING_KEPT);

    if (chat_gate_is_own(look->q, last)) {
        return CHAT_GATE_GO;
    }

    if (chat_gate_names(look->q->relayed, last->worker, last->request)) {
        /* it would wait for itself */
        out->twin = 0;
        return CHAT_GATE_PASS;
    }

    if (failed
        && (last->k <= look->q->ended_k || chat_gate_is_redirected(last))) {
        return chat_gate_next(look, out);
    }

    if (!look->sibling) {
        /* the request gets an answer of its own */
        if (chat_gate_asks_the_same(look->q, last)) {
            out->reason = CHAT_REASON_PASSED_REPEATED;
        }

        return CHAT_GATE_PASS;
    }

    if (failed) {
        /* it may have begun and ended within one look */
        out->may_follow = last->answer >= 200 && last->answer < 300;
        return CHAT_GATE_OUTCOME;
    }

    if (last->end == CHAT_END_NONE
        && (last->answer == 0 || chat_gate_is_redirected(last)))
    {
        return CHAT_GATE_WAIT;
    }

    if (last->answer >= 300) {
        return CHAT_GATE_OUTCOME;
    }

    return chat_gate_answered(look, out);
}


/* The batch is over: superseded, or else cleared. */
static chat_gate_verdict_e
chat_gate_over(const chat_question_t *q, int superseded, chat_decision_t *out)
{
    if (q->complete) {
        out->reason = superseded ? CHAT_REASON_PASSED_SUPERSEDED
                                 : CHAT_REASON_PASSED_CLEARED;
        return CHAT_GATE_PASS;
    }

    if (!q->dialect->provider) {
        out->reason = superseded ? CHAT_REASON_EMPTY_SUPERSEDED
                                 : CHAT_REASON_EMPTY_CLEARED;
        return CHAT_GATE_EMPTY;
    }

    return superseded ? CHAT_GATE_SUPERSEDED : CHAT_GATE_CLEARED;
}


/* The verdict: the first row that fits. */
static chat_gate_verdict_e
chat_gate_row(chat_look_t *look, chat_decision_t *out)
{
    int                 superseded, unlisted;
    size_t              listed = chat_gate_listed(look, &unlisted);
    chat_gate_verdict_e verdict;
    chat_question_t    *q = look->q;
    const chat_batch_t *batch = look->batch;

    if (q->chained && !batch->sealed && !look->live) {
        out->reason = look->lost_step ? CHAT_REASON_HELD_UNSEALED : 0;
        return batch->cleared    ? CHAT_GATE_CLEARED
               : look->lost_step ? CHAT_GATE_HOLD
                                 : CHAT_GATE_UNMANAGED;
    }

    /* the conversation names its newest step, the results may be of another */
    if (q->chained && batch->sealed && q->nmembers != 0 && listed == 0) {
        out->reason = CHAT_REASON_UNMANAGED_OTHER_STEP;
        return CHAT_GATE_UNMANAGED;
    }

    /* a fresh turn leaves a finished batch behind as it is */
    superseded = batch->superseded && look->last.end != CHAT_END_FINISHED;

    if (superseded || batch->cleared) {
        return chat_gate_over(q, superseded, out);
    }

    if (look->live || look->lost_step) {
        q->found_unsealed = 1;
        out->reason = CHAT_REASON_HELD_UNSEALED;
        return CHAT_GATE_HOLD;
    }

    if (q->found_unsealed && !q->chained && unlisted) {
        return CHAT_GATE_INCOMPLETE;
    }

    if (out->missing != 0) {
        return CHAT_GATE_HOLD;
    }

    verdict = look->last.k == 0 || look->last.is_void
                  ? chat_gate_next(look, out)
                  : chat_gate_claimed(look, out);

    if (look->held_elsewhere && verdict <= CHAT_GATE_GO) {
        /* it may be answered, but must not go upstream without it */
        out->reason = CHAT_REASON_HELD_OTHER_REQUEST;
        return CHAT_GATE_HOLD;
    }

    return verdict;
}


/* Keeps the attempt of another request, if it is not older. */
static void
chat_gate_see_attempt(chat_question_t *q, const chat_attempt_t *attempt,
                      chat_attempt_t *seen)
{
    size_t worker = attempt->worker.len, request = attempt->request.len;
    chat_attempt_t copy = *attempt;

    if (attempt->k < seen->k || worker == 0 || request == 0
        || worker > CHAT_CLAIMANT_MAX || request > CHAT_CLAIMANT_MAX - worker
        || chat_gate_is_own(q, attempt))
    {
        return;
    }

    if (attempt->k == seen->k && chat_str_eq(attempt->worker, seen->worker)
        && chat_str_eq(attempt->request, seen->request))
    {
        copy.worker = seen->worker;
        copy.request = seen->request;
        copy.results = seen->results;

    } else if (chat_arena_dup(q->arena, attempt->worker, &copy.worker)
                   != CHAT_OK
               || chat_arena_dup(q->arena, attempt->request, &copy.request)
                      != CHAT_OK
               || chat_arena_dup(q->arena, attempt->results, &copy.results)
                      != CHAT_OK)
    {
        return;
    }

    *seen = copy;
}


/*
 * 1 if a worker is first seen dead. What it has joined until then is in the
 * store now, but these facts may have been read before. A request does not ask
 * again if its own worker may have been taken for dead: it must not go on.
 */
static int
chat_gate_sees_death(chat_look_t *look)
{
    chat_question_t *q = look->q;
    int              again = look->lost && q->dead_k != look->last.k
                && !chat_gate_is_own(q, &look->last);

    if (look->lost) {
        q->dead_k = look->last.k;
    }

    again |= look->stream_lost && !q->dead_stream;
    q->dead_stream = look->stream_lost;
    return again && !q->fresh;
}


/* Fills the look: the last attempt and the stream with their deaths. */
static void
chat_gate_look(chat_look_t *look, chat_question_t *q,
               const chat_batch_t *batch,
               int (*alive)(void *data, chat_str_t worker), void *data)
{
    memset(look, 0, sizeof(*look));

    look->q = q;
    look->batch = batch;
    look->last = batch->last;
    look->last.is_void |=
        look->last.k <= q->voided && chat_gate_is_own(q, &look->last);

    look->lost = chat_attempt_expire_dead(&look->last, alive, data);

    look->live = batch->open && !batch->sealed && !batch->broken;
    look->stream_lost = look->live && !alive(data, batch->producer);
    look->live = look->live && !look->stream_lost;

    look->lost_step = !batch->open && !batch->sealed && !batch->broken
                      && (q->found_unsealed || (q->chained && q->seen.sealed));
}


void
chat_gate_decide(chat_question_t *q, const chat_batch_t            *batch,
                 int (*alive)(void *data, chat_str_t worker), void *data,
                 chat_decision_t *out)
{
    chat_look_t look;

    memset(out, 0, sizeof(*out));
    chat_gate_look(&look, q, batch, alive, data);

    if (chat_gate_sees_death(&look)) {
        out->verdict = CHAT_GATE_AGAIN;
        return;
    }

    if (!q->looked) {
        q->looked = 1;
        q->answered_k = look.last.answer ? look.last.k : 0;
        q->ended_k = look.last.end != CHAT_END_NONE ? look.last.k : 0;
    }

    q->delivered = chat_gate_all_delivered(&look);

    chat_gate_count(&look, out);

    if (q->chained) {
        /* without the seal a call may be unknown */
        q->complete = batch->sealed && out->missing == 0 && !out->merge
                      && !look.held_elsewhere;
    }

    look.sibling = chat_gate_may_follow(q, batch, &look.last, &out->twin);

    out->verdict = chat_gate_row(&look, out);
    out->twin = out->twin && out->verdict != CHAT_GATE_CLAIM
                && out->verdict != CHAT_GATE_GO;

    out->merge |= look.overruled;

    if (out->verdict == CHAT_GATE_CLAIM) {
        /* without memory no other request is a sibling */
        q->sent_results = chat_gate_results(q, batch, 0);
    }

    chat_gate_see_attempt(q, &batch->last, &q->seen.last);
    chat_gate_see_attempt(q, &batch->answered, &q->seen.answered);
    q->seen.partial |= batch->partial;
    q->seen.sealed |= batch->sealed;

    if (q->chained && batch->ncalls > q->seen.ncalls) {
        q->seen.ncalls = batch->ncalls;
    }
}


chat_reply_e
chat_gate_incomplete(const chat_dialect_t *dialect)
{
    return dialect->bounce != NULL ? CHAT_REPLY_BOUNCE : CHAT_REPLY_INCOMPLETE;
}


/* Ends a request that waited for an attempt that has failed. */
static void
chat_gate_outcome(const chat_question_t *q, const chat_decision_t *decision,
                  chat_act_t *act)
{
    act->reason = CHAT_REASON_CONFLICT_UPSTREAM_ERROR;

    if (decision->status >= 400) {
        act->reply = CHAT_REPLY_UPSTREAM_STATUS;

    } else if (decision->end == CHAT_END_FAILED) {
        act->reply = CHAT_REPLY_UPSTREAM_ERROR;

    } else if (decision->end != CHAT_END_ABORTED) {
        act->reply = CHAT_REPLY_INTERRUPTED;
        act->reason = decision->lost ? CHAT_REASON_CONFLICT_PRODUCER_LOST
                                     : CHAT_REASON_CONFLICT_INTERRUPTED;

    } else {
        act->reply =
            q->dialect->one_by_one ? CHAT_REPLY_BOUNCE : CHAT_REPLY_ABORTED;
        act->reason = q->dialect->one_by_one ? CHAT_REASON_BOUNCED_ABORTED
                                             : CHAT_REASON_CONFLICT_ABORTED;
    }
}


/*
 * The action of each verdict, its usual reason, the reply if the request ends
 * here, and if a wait is bounded. chat_gate_act() replaces some by the terms.
 */
static const chat_act_t chat_gate_acts[] = {
    [CHAT_GATE_PASS] = { CHAT_ACT_GO, CHAT_REASON_PASSED_NOT_SIBLING, 0, 0 },
    [CHAT_GATE_CLAIM] = { CHAT_ACT_CLAIM, CHAT_REASON_PASSED_COMPLETE, 0, 0 },
    [CHAT_GATE_GO] = { CHAT_ACT_GO, CHAT_REASON_PASSED_COMPLETE, 0, 0 },
    [CHAT_GATE_UNMANAGED] = { CHAT_ACT_POLL,
                              CHAT_REASON_UNMANAGED_UNKNOWN_BATCH, 0, 0 },
    [CHAT_GATE_HOLD] = { CHAT_ACT_WAIT, CHAT_REASON_HELD_INCOMPLETE, 0, 1 },
    [CHAT_GATE_WAIT] = { CHAT_ACT_WAIT, CHAT_REASON_HELD_SIBLING, 0, 0 },
    [CHAT_GATE_SIBLING] = { CHAT_ACT_REPLY, CHAT_REASON_EMPTY_SIBLING,
                            CHAT_REPLY_EMPTY, 0 },
    [CHAT_GATE_EMPTY] = { CHAT_ACT_REPLY, CHAT_REASON_EMPTY_LATE,
                          CHAT_REPLY_EMPTY, 0 },
    [CHAT_GATE_CONFLICT] = { CHAT_ACT_REPLY, CHAT_REASON_CONFLICT_LATE,
                             CHAT_REPLY_CONFLICT, 0 },
    [CHAT_GATE_OUTCOME] = { .action = CHAT_ACT_REPLY },
    [CHAT_GATE_INCOMPLETE] = { CHAT_ACT_REPLY, CHAT_REASON_BOUNCED_UNLISTED,
                               CHAT_REPLY_INCOMPLETE, 0 },
    [CHAT_GATE_SUPERSEDED] = { CHAT_ACT_REPLY,
                               CHAT_REASON_SUPERSEDED_NEW_MESSAGE,
                               CHAT_REPLY_SUPERSEDED, 0 },
    [CHAT_GATE_CLEARED] = { CHAT_ACT_REPLY, CHAT_REASON_SUPERSEDED_CLEARED,
                            CHAT_REPLY_CLEARED, 0 },
    [CHAT_GATE_LOOP] = { CHAT_ACT_REPLY, CHAT_REASON_REFUSED_LOOP,
                         CHAT_REPLY_LOOP, 0 },
    [CHAT_GATE_AGAIN] = { .action = CHAT_ACT_LOOK },
};

/* The same reasons of a request that has waited. */
static const chat_reason_e chat_gate_released[] = {
    [CHAT_REASON_PASSED_COMPLETE] = CHAT_REASON_RELEASED_COMPLETE,
    [CHAT_REASON_PASSED_MERGED] = CHAT_REASON_RELEASED_MERGED,
    [CHAT_REASON_PASSED_NOT_SIBLING] = CHAT_REASON_RELEASED_NOT_SIBLING,
    [CHAT_REASON_PASSED_SUPERSEDED] = CHAT_REASON_RELEASED_SUPERSEDED,
    [CHAT_REASON_PASSED_CLEARED] = CHAT_REASON_RELEASED_CLEARED,
    [CHAT_REASON_PASSED_REPEATED] = CHAT_REASON_RELEASED_COMPLETE,
};


/* 1 if a request of this class passes, whatever became of the batch. */
static int
chat_gate_is_free(chat_class_e class, chat_gate_verdict_e verdict,
                  chat_act_t *act)
{
    if (class == CHAT_CLASS_FRESH) {
        act->action = CHAT_ACT_GO;
        act->reason = CHAT_REASON_PASSED_NEW_MESSAGE;
        return 1;
    }

    if (class == CHAT_CLASS_ITEMS && verdict != CHAT_GATE_UNMANAGED) {
        act->action = CHAT_ACT_PASS;
        act->reason = CHAT_REASON_PASSED_ITEMS;

    } else if (class == CHAT_CLASS_PENDING && verdict == CHAT_GATE_HOLD) {
        act->action = CHAT_ACT_PASS;
        act->reason = CHAT_REASON_PASSED_NO_RESULTS;
    }

    return class == CHAT_CLASS_ITEMS || act->action == CHAT_ACT_PASS;
}


chat_act_t
chat_gate_act(const chat_question_t *q, const chat_decision_t *decision,
              const chat_terms_t *terms)
{
    chat_gate_verdict_e verdict = decision->verdict;
    chat_act_t          act = chat_gate_acts[verdict];

    if (decision->reason != 0) {
        act.reason = decision->reason;
    }

    if (chat_gate_is_free(terms->class, verdict, &act)) {
        return act;
    }

    if (verdict == CHAT_GATE_OUTCOME) {
        chat_gate_outcome(q, decision, &act);

    } else if (verdict == CHAT_GATE_INCOMPLETE) {
        act.reply = chat_gate_incomplete(q->dialect);

    } else if (verdict == CHAT_GATE_SIBLING && q->dialect->empty == NULL) {
        act.reply = CHAT_REPLY_CONFLICT;
        act.reason = CHAT_REASON_CONFLICT_NO_EMPTY_TURN;

    } else if (verdict == CHAT_GATE_GO && decision->merge) {
        act.reason = CHAT_REASON_PASSED_MERGED;
    }

    if (decision->recorded && !terms->unrecorded
        && (verdict == CHAT_GATE_SIBLING
            || (decision->may_follow
                && (act.action == CHAT_ACT_GO
                    || act.action == CHAT_ACT_REPLY))))
    {
        act.action = CHAT_ACT_FOLLOW;
        act.reason =
            verdict == CHAT_GATE_SIBLING || verdict == CHAT_GATE_OUTCOME
                ? CHAT_REASON_ATTACHED_SIBLING
                : CHAT_REASON_ATTACHED_LATE;

    } else if (act.bounded && terms->watching && terms->no_hold) {
        act.action = CHAT_ACT_REPLY;
        act.reply = chat_gate_incomplete(q->dialect);
        act.reason = CHAT_REASON_BOUNCED_INCOMPLETE;

    } else if (act.action == CHAT_ACT_GO && terms->watching) {
        act.reason = chat_gate_released[act.reason];
    }

    return act;
}


chat_rc_e
chat_gate_needs(const chat_question_t *q, const chat_batch_t *batch,
                chat_arena_t *arena, chat_needs_t *needs)
{
    int           ok = 1;
    size_t        i, n = chat_gate_nmembers(q, batch);
    chat_str_t    id;
    chat_source_e source;

    memset(needs, 0, sizeof(*needs));
    needs->fields = chat_arena_alloc(arena, 3 * n * sizeof(chat_str_t));
    if (needs->fields == NULL) {
        return CHAT_ERROR;
    }

    needs->missing = needs->fields + 2 * n;

    for (i = 0; i < n; i++) {
        source = chat_gate_source(q, batch, i, &id);

        if (source == SOURCE_NONE || source == SOURCE_OTHER) {
            ok &= chat_arena_dup(arena, id, &needs->missing[needs->nmissing++])
                  == CHAT_OK;
        }

        if (source == SOURCE_RESULT) {
            needs->fields[needs->nfields++] =
                chat_facts_field(arena, "result/", id);
        }

        if (source == SOURCE_APPROVAL || source == SOURCE_OVERRULE
            || (source == SOURCE_RESULT
                && chat_batch_find(batch, id)->approval != CHAT_APPROVAL_NONE))
        {
            needs->fields[needs->nfields++] =
                chat_facts_field(arena, "approval/", id);
        }
    }

    for (i = 0; i < needs->nfields; i++) {
        ok &= needs->fields[i].len != 0;
    }

    return ok ? CHAT_OK : CHAT_ERROR;
}
