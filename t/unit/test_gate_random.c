/*
 * test_gate_random.c: the gate with random schedules.
 *
 * Two to six requests bring parts of one step's results; their joins, looks,
 * claims, answers, ends and deaths are interleaved at random, each as nginx
 * does it. In every order: no request goes upstream without a result, at most
 * one claim is valid at a time, no request waits forever, and without failures
 * exactly one goes upstream. A failure names its seed.
 */

#include "gate_run.h"

#define RUNS 24000
#define REQUESTS 6

/* The next step of a request. */
typedef enum {
    STATE_NEW,      /* joins */
    STATE_LOOKING,  /* its join is done: looks */
    STATE_CLAIMING, /* puts its claim, then looks */
    STATE_VOIDING,  /* will wait: voids what it claimed in its first join */
    STATE_TELLING,  /* will hold: tells what it brings, watches, then looks */
    STATE_WAITING,  /* looks again when something has changed */
    STATE_KEEPING,  /* goes on in a batch that was seen incomplete */
    STATE_SENT,     /* its upstream has not answered yet */
    STATE_ANSWERED, /* the answer streams */
    STATE_OVER
} state_e;

typedef struct {
    asker_t  a;
    state_e  state;
    int      watching;
    int      news; /* something was added since its last look */
    uint32_t attempt;
    int      went;
    int      complete; /* it brought all */
} player_t;

typedef struct {
    player_t players[REQUESTS];
    unsigned requests;
    unsigned members;
    int      failures; /* 1: attempts may fail, workers may die */
    int      open;     /* a stream that is sealed during the run */
    unsigned gone;     /* requests that went on with a claim */
    unsigned passed;   /* without */
    unsigned bounced;  /* at the bound of their hold */
    unsigned told;     /* siblings and fates */
    unsigned failed;   /* attempts that came to nothing */
} run_t;

static uint32_t seed, first;
static unsigned total_gone, total_passed, total_bounced, total_told;


static uint32_t
dice(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (seed >> 4) % n;
}


#define NEED(ok)                                                      \
    do {                                                              \
        if (!(ok)) {                                                  \
            fail_msg("seed %u: not true: %s", (unsigned) first, #ok); \
        }                                                             \
    } while (0)


static void
run_news(run_t *run, int news)
{
    unsigned i;

    for (i = 0; news && i < run->requests; i++) {
        run->players[i].news = 1;
    }
}


static void
run_open(run_t *run)
{
    unsigned              i, m, given;
    char                  token[3] = { 0 };
    player_t             *p;
    chat_facts_t          facts;
    const chat_dialect_t *dialect = chat_dialects[dice(chat_dialect_count)];

    memset(run, 0, sizeof(*run));
    run->requests = 2 + dice(REQUESTS - 1);
    run->members = 1 + dice(5);
    run->failures = dice(3) == 0;
    run->open = dice(3) == 0;

    for (i = 0; i < run->requests; i++) {
        p = &run->players[i];
        asker_begin(&p->a);

        for (m = given = 0; m < run->members; m++) {
            token[0] = (char) ('a' + m);
            /* each result is in some request */
            token[1] = m % run->requests == i || dice(3) == 0 ? '+' : '.';
            given += token[1] == '+';
            asker_call(&p->a, token);
        }

        p->complete = given == run->members;
        asker_open(&p->a, dialect, (char) ('A' + i));
        p->a.at_once = dice(2);
        NEED(p->a.q.complete == p->complete);
    }

    if (run->open) {
        chat_facts_init(&facts, store.arena);
        chat_facts_open(&facts, chat_cstr("P"), chat_cstr(""));
        (void) store_join(&facts);
    }
}


/* Every member has its result, in the request or in the store. */
static void
run_is_whole(player_t *p)
{
    size_t               i, n;
    chat_batch_t         batch;
    chat_needs_t         needs;
    const chat_call_t   *call;
    const chat_member_t *member;

    assert_int_equal(
        chat_batch_read(store.facts, store.count, p->a.arena, &batch),
        CHAT_OK);
    assert_int_equal(chat_gate_needs(&p->a.q, &batch, p->a.arena, &needs),
                     CHAT_OK);
    n = needs.nfields;
    NEED(n == 0 || chat_request_lacks(&p->a.rq));

    for (i = 0; i < p->a.rq.ncalls; i++) {
        call = &p->a.rq.calls[i];
        if (call->outcome != CHAT_OUTCOME_NONE) {
            continue;
        }

        member = chat_batch_find(&batch, call->id);
        NEED(member != NULL && member->outcome == CHAT_OUTCOME_OK);
        NEED(member->has_payload);
        NEED(n > 0);
        n--;
    }

    NEED(n == 0);
}


/*
 * At most one claim is open (neither void nor ended), and its claimant is the
 * request that holds it.
 */
static void
run_claims(run_t *run, player_t *goes)
{
    unsigned  i;
    player_t *p;

    for (i = 0; i < run->requests; i++) {
        p = &run->players[i];
        NEED(p == goes || p->attempt == 0
             || (p->state != STATE_SENT && p->state != STATE_ANSWERED)
             || strchr(dead, 'A' + (int) i) != NULL);
    }
}


/* The request goes upstream. */
static void
run_goes(run_t *run, player_t *p)
{
    int          partial;
    chat_batch_t batch;

    p->attempt = p->a.claiming;
    p->a.claiming = 0;
    p->went = 1;
    NEED(p->a.d.verdict != CHAT_GATE_GO || p->attempt == p->a.d.k);
    run_is_whole(p);

    if (p->attempt == 0) {
        run->passed++;
        p->state = STATE_OVER;
        return;
    }

    run->gone++;
    run_claims(run, p);

    assert_int_equal(
        chat_batch_read(store.facts, store.count, p->a.arena, &batch),
        CHAT_OK);
    partial = batch.partial;
    p->state = partial && p->complete ? STATE_KEEPING : STATE_SENT;
}


/* Applies the verdict. */
static void
run_acts(run_t *run, player_t *p)
{
    switch (p->a.d.verdict) {
    case CHAT_GATE_CLAIM:
        p->state = STATE_CLAIMING;
        return;

    case CHAT_GATE_GO:
    case CHAT_GATE_PASS:
        run_goes(run, p);
        return;

    case CHAT_GATE_HOLD:
    case CHAT_GATE_WAIT:
        p->state = p->a.claiming ? STATE_VOIDING : STATE_TELLING;
        return;

    case CHAT_GATE_SIBLING:
    case CHAT_GATE_EMPTY:
    case CHAT_GATE_CONFLICT:
    case CHAT_GATE_OUTCOME:
        NEED(p->a.claiming == 0);
        run->told++;
        p->state = STATE_OVER;
        return;

    default:
        NEED(!"a verdict of this kind");
    }
}


/* An event of the request's upstream. */
static void
run_upstream(run_t *run, player_t *p)
{
    static const uint32_t   bad[] = { 429, 500, 302 };
    static const chat_end_e ends[] = { CHAT_END_FINISHED, CHAT_END_FAILED,
                                       CHAT_END_ABORTED,
                                       CHAT_END_INTERRUPTED };
    chat_end_e              end = CHAT_END_FINISHED;

    if (p->state == STATE_SENT && run->failures && dice(3) == 0) {
        /* nothing was sent: what it brought is kept, then the void */
        if (p->complete) {
            run_news(run, asker_tell(&p->a));
        }
        p->a.claiming = p->attempt;
        run_news(run, asker_void(&p->a));
        run->failed++;
        p->state = STATE_OVER;
        return;
    }

    if (p->state == STATE_SENT && run->failures && dice(3) == 0) {
        run_news(run, asker_finish(&p->a, p->attempt, CHAT_END_FAILED)
                          + asker_answer(&p->a, p->attempt, bad[dice(3)]));
        run->failed++;
        p->state = STATE_OVER;
        return;
    }

    if (p->state == STATE_SENT) {
        run_news(run, asker_answer(&p->a, p->attempt, 200));
        p->state = STATE_ANSWERED;
        return;
    }

    if (run->failures) {
        end = ends[dice(4)];
        run->failed += end != CHAT_END_FINISHED;
    }

    run_news(run, asker_finish(&p->a, p->attempt, end));
    p->state = STATE_OVER;
}


/* Puts its results and watches, which is also a look. */
static void
run_waits(run_t *run, player_t *p)
{
    if (!p->watching) {
        p->watching = 1;
        if (p->a.d.verdict == CHAT_GATE_HOLD) {
            run_news(run, asker_tell(&p->a));
        }
        p->state = STATE_LOOKING;
        return;
    }

    p->state = p->news ? STATE_LOOKING : STATE_WAITING;
}


/* One step of this request; 0: it has none. */
static int
run_step(run_t *run, player_t *p)
{
    switch (p->state) {
    case STATE_NEW:
        run_news(run, asker_join(&p->a));
        p->state = STATE_LOOKING;
        return 1;

    case STATE_LOOKING:
        p->news = 0;
        asker_look(&p->a);
        run_acts(run, p);
        return 1;

    case STATE_CLAIMING:
        asker_claim(&p->a);
        run_news(run, 1);
        p->state = STATE_LOOKING;
        return 1;

    case STATE_VOIDING:
        run_news(run, asker_void(&p->a));
        p->state = STATE_TELLING;
        return 1;

    case STATE_TELLING:
        run_waits(run, p);
        return 1;

    case STATE_WAITING:
        p->state = p->news ? STATE_LOOKING : STATE_WAITING;
        return p->news;

    case STATE_KEEPING:
        run_news(run, asker_tell(&p->a));
        p->state = STATE_SENT;
        return 1;

    case STATE_SENT:
    case STATE_ANSWERED:
        run_upstream(run, p);
        return 1;

    case STATE_OVER:
        break;
    }

    return 0;
}


/* A worker is killed. */
static void
run_kill(run_t *run, player_t *p)
{
    dead[strlen(dead)] = (char) ('A' + (p - run->players));
    run->failed += p->went && p->state != STATE_OVER;
    p->state = STATE_OVER;
    /* the others notice at their next poll of the heartbeats */
    run_news(run, 1);
}


static void
run_seal(run_t *run)
{
    chat_facts_t facts;

    chat_facts_init(&facts, store.arena);
    chat_facts_add(&facts, dice(4) ? "seal" : "broken", chat_cstr("1"));
    run_news(run, store_join(&facts));
    run->open = 0;
}


/* No event is left: holds expire. */
static int
run_bound(run_t *run)
{
    unsigned i;

    for (i = 0; i < run->requests; i++) {
        if (run->players[i].state == STATE_WAITING) {
            NEED(run->players[i].a.d.verdict == CHAT_GATE_HOLD);
            run->players[i].state = STATE_OVER;
            run->bounced++;
            return 1;
        }
    }

    return 0;
}


static void
run_all(run_t *run)
{
    unsigned  steps, i, tries;
    player_t *p;

    for (steps = 0;; steps++) {
        NEED(steps < 2000);

        if (run->open && dice(8) == 0) {
            run_seal(run);
        }

        if (run->failures && dice(40) == 0) {
            run_kill(run, &run->players[dice(run->requests)]);
        }

        p = &run->players[dice(run->requests)];
        run_news(run, dice(10) ? 0 : asker_errs(&p->a, dice(8)));

        i = dice(run->requests);
        for (tries = 0; tries < run->requests; tries++) {
            p = &run->players[(i + tries) % run->requests];
            if (run_step(run, p)) {
                break;
            }
        }

        if (tries < run->requests) {
            continue;
        }

        if (run->open) {
            run_seal(run);
        } else if (!run_bound(run)) {
            return;
        }
    }
}


static void
run_judge(run_t *run)
{
    unsigned i, whole = 0;

    for (i = 0; i < run->requests; i++) {
        NEED(run->players[i].state == STATE_OVER);
        whole += run->players[i].complete;
    }

    if (!run->failures) {
        NEED(run->gone == 1);
        NEED(run->failed == 0);
        /* only bodies without missing results go upstream beside it */
        NEED(run->passed <= whole);
        NEED(run->passed == 0 || run->players[0].a.q.dialect->provider);
        NEED(run->bounced == 0);
        NEED(run->told == run->requests - run->gone - run->passed);
    }

    /* a further attempt needs a failed one */
    NEED(run->gone <= 1 + run->failed);

    total_gone += run->gone;
    total_passed += run->passed;
    total_bounced += run->bounced;
    total_told += run->told;
}


static void
s37_s52_s53_any_interleaving(void **state)
{
    run_t    run;
    unsigned i, n;

    for (n = 1; n <= RUNS; n++) {
        first = seed = n * 2654435761u;
        store_begin();
        run_open(&run);
        run_all(&run);
        run_judge(&run);

        for (i = 0; i < run.requests; i++) {
            asker_end(&run.players[i].a);
        }
    }

    print_message("%u went on, %u passed, %u bounced, %u were told\n",
                  total_gone, total_passed, total_bounced, total_told);
    store_end();
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s37_s52_s53_any_interleaving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
