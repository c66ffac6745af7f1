/*
 * merge_open_run.h: a fresh turn with open calls in its transcript, repaired
 * as nginx does it, and compared with the expected body.
 *
 * The store is that of gate_run.h: one batch; all steps share its facts.
 */

#ifndef MERGE_OPEN_RUN_H
#define MERGE_OPEN_RUN_H

#include "merge_run.h"

static chat_buf_t text, want, got;


static inline int
fresh(void **state)
{
    store_begin();
    return 0;
}


static inline int
over(void **state)
{
    chat_buf_free(&text);
    chat_buf_free(&want);
    chat_buf_free(&got);
    store_end();
    return 0;
}


/* Inserts the stored results, then the errors of the other calls. */
static inline void
repair(taken_t *t, int unknown)
{
    size_t             i;
    chat_batch_t       batch;
    const chat_step_t *step;
    chat_request_t    *rq = &t->a.rq;

    assert_int_equal(
        chat_batch_read(store.facts, store.count, t->a.arena, &batch),
        CHAT_OK);
    take_order(t, &batch);

    for (i = rq->nsteps; i-- > 0;) {
        assert_int_equal(chat_results_collect(&t->results, rq, &rq->steps[i],
                                              store.facts, store.count,
                                              t->order, t->norder, 0),
                         CHAT_OK);
    }

    assert_int_equal(chat_results_open(&t->results, rq, unknown), CHAT_OK);

    if (rq->chained && unknown) {
        step = &rq->steps[rq->nsteps - 1];
        assert_int_equal(chat_results_open_chain(&t->results, rq, step,
                                                 t->order, t->norder),
                         CHAT_OK);
    }

    got.len = 0;
    assert_int_equal(
        chat_merge(t->form->dialect, &t->doc, rq, &t->results, &got), CHAT_OK);
}


/* The repaired body must be the other; NULL: it must be unchanged. */
static inline void
becomes(const form_t *form, int unknown, const char *body, const char *result)
{
    taken_t t;

    take(&t, form, chat_cstr(body));
    assert_int_equal(t.a.rq.class, CHAT_CLASS_FRESH);
    repair(&t, unknown);

    if (result == NULL) {
        chat_buf_add(&got, chat_str("", 1));
        assert_string_equal((char *) got.data, body);

    } else {
        want.len = 0;
        chat_buf_puts(&want, result);
        same(&got, &want);
    }

    drop(&t);
}


#endif /* MERGE_OPEN_RUN_H */
