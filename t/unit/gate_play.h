/*
 * gate_play.h: runs the scripts of the gate's tests.
 *
 * Lines end with ; and begin with a request's name, a capital letter:
 *   A asks a+ b. -> HOLD missing=1    a request comes, joins and looks
 *   A looks | claims -> VERDICT
 *   A voids | tells | dies | answers STATUS | ends HOW | is [not] complete
 *   A watches | is lost | is not lost | rejoins -> VERDICT | reclaims
 *   call a | result a | bare a | fact FIELD VALUE | clear | lose | wait MS
 * Words of asks: chained, kept (at the provider), fresh, retry, retry=2,
 * key=x, model=2, turn=2, nothing-new, at-once (its first join may claim).
 */

#ifndef GATE_PLAY_H
#define GATE_PLAY_H

#include "gate_run.h"

static asker_t               askers[26];
static const chat_dialect_t *dialect;

static const char *const verdicts[] = {
    "PASS",       "CLAIM",      "GO",      "UNMANAGED", "HOLD",
    "WAIT",       "SIBLING",    "EMPTY",   "CONFLICT",  "OUTCOME",
    "INCOMPLETE", "SUPERSEDED", "CLEARED", "LOOP"
};


/* The verdict that a word such as EMPTY/CONFLICT means for the dialect. */
static inline const char *
play_wanted(char *word)
{
    char *first = word, *second, *third;

    second = strchr(word, '/');
    if (second == NULL) {
        return first;
    }

    *second++ = '\0';
    third = strchr(second, '/');
    if (third != NULL) {
        *third++ = '\0';
    }

    return !dialect->provider                        ? first
           : dialect->empty == NULL && third != NULL ? third
                                                     : second;
}


/* A word after the verdict; 0 if it does not hold. */
static inline int
play_holds(const chat_decision_t *d, const char *word)
{
    if (strncmp(word, "k=", 2) == 0) {
        return d->k == (uint32_t) atoi(word + 2);
    }

    if (strncmp(word, "missing=", 8) == 0) {
        return d->missing == (size_t) atoi(word + 8);
    }

    if (strncmp(word, "status=", 7) == 0) {
        return d->status == (uint32_t) atoi(word + 7);
    }

    if (strncmp(word, "after=", 6) == 0) {
        return d->after == (uint32_t) atoi(word + 6);
    }

    if (strncmp(word, "end=", 4) == 0) {
        return strcmp(chat_end_names[d->end], word + 4) == 0;
    }

    return strcmp(word, "merge") == 0      ? d->merge
           : strcmp(word, "merge=0") == 0  ? !d->merge
           : strcmp(word, "attach") == 0   ? d->may_follow
           : strcmp(word, "attach=0") == 0 ? !d->may_follow
           : strcmp(word, "attach/0") == 0
               ? d->may_follow == !dialect->provider
           : strcmp(word, "lost") == 0 ? d->lost
                                       : 0;
}


/* The text after the arrow. */
static inline void
play_expect(const asker_t *a, char *words, const char *line)
{
    char       *word, *rest = NULL;
    const char *want;

    word = strtok_r(words, " ", &rest);
    assert_non_null(word);
    want = play_wanted(word);

    if (strcmp(want, verdicts[a->d.verdict]) != 0) {
        fail_msg("%s: %s, got %s", dialect->name, line,
                 verdicts[a->d.verdict]);
    }

    while ((word = strtok_r(NULL, " ", &rest)) != NULL) {
        if (!play_holds(&a->d, word)) {
            fail_msg("%s: %s: not %s (k %u, missing %zu, merge %d, end %s)",
                     dialect->name, line, word, (unsigned) a->d.k,
                     a->d.missing, a->d.merge, chat_end_names[a->d.end]);
        }
    }
}


static inline void
play_asks(asker_t *a, char name, char *words, const char *line)
{
    int           old = 0, retry = 0, fresh = 0, kept = 0, news;
    char         *word, *rest = NULL;
    chat_digest_t key = { { 0 } };

    if (a->arena != NULL) {
        asker_end(a);
    }

    asker_begin(a);

    for (word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest))
    {
        if (strcmp(word, "chained") == 0) {
            a->rq.chained = 1;

        } else if (strcmp(word, "retry") == 0) {
            retry = 1;

        } else if (strcmp(word, "fresh") == 0) {
            fresh = 1;

        } else if (strcmp(word, "kept") == 0) {
            kept = 1;

        } else if (strncmp(word, "retry=", 6) == 0) {
            retry = atoi(word + 6);

        } else if (strncmp(word, "turn=", 5) == 0) {
            a->rq.signature[1] = (unsigned char) word[5];

        } else if (strcmp(word, "at-once") == 0) {
            a->at_once = 1;

        } else if (strcmp(word, "nothing-new") == 0) {
            old = 1;

        } else if (strncmp(word, "key=", 4) == 0) {
            chat_digest(chat_cstr(word), &key);

        } else if (strncmp(word, "model=", 6) == 0) {
            a->rq.signature[0] = (unsigned char) word[6];

        } else {
            asker_call(a, word);
        }
    }

    asker_open(a, dialect, name);
    a->q.retry = (unsigned) retry;
    a->q.fresh = fresh;
    a->q.kept = kept;
    memcpy(a->q.retry_key, key.bytes, 16);
    news = asker_join(a);

    if (old && news) {
        fail_msg("%s: %s: it brought news", dialect->name, line);
    }

    asker_look(a);
}


/* Puts a fact that does not come from a request. */
static inline int
play_fact(const char *line)
{
    char                     field[64] = "", value[128] = "", *c, id;
    chat_str_t               payload = CHAT_STR("outside");
    chat_facts_t             facts;
    chat_hash_t              digest;
    static const chat_hash_t unknown;

    memset(&digest, 7, sizeof(digest));
    chat_facts_init(&facts, store.arena);

    if (strcmp(line, "clear") == 0) {
        store_begin();
        chat_facts_add(&facts, "cleared", chat_cstr("1"));

    } else if (strcmp(line, "lose") == 0) {
        store_lose();

    } else if (strncmp(line, "wait ", 5) == 0) {
        now += (uint64_t) atoi(line + 5);

    } else if (sscanf(line, "fact %63s %127s", field, value) >= 1) {
        /* spaces of the value are written so */
        for (c = value; *c != '\0'; c++) {
            *c = *c == '_' ? ' ' : *c;
        }

        chat_facts_add(&facts, field, chat_cstr(value));

    } else if (sscanf(line, "call %c%c", &id, value) >= 1) {
        chat_facts_call(&facts, chat_str(&id, 1),
                        value[0] == '%'   ? CHAT_KIND_PROVIDER
                        : value[0] == '?' ? CHAT_KIND_APPROVAL
                                          : CHAT_KIND_CLIENT,
                        (uint32_t) (id - 'a'), &digest);

    } else if (sscanf(line, "result %c", &id) == 1
               || sscanf(line, "bare %c", &id) == 1)
    {
        chat_facts_result(&facts, chat_str(&id, 1), CHAT_OUTCOME_OK, &digest,
                          &unknown, line[0] == 'r' ? &payload : NULL);
    } else {
        return 0;
    }

    (void) store_join(&facts);
    return 1;
}


/* What a request's own nginx does without a look; 0: unknown word. */
static inline int
play_deed(asker_t *a, char name, const char *verb)
{
    char     how[32];
    unsigned status, end = CHAT_END_FINISHED;

    if (strcmp(verb, "voids") == 0) {
        assert_int_not_equal(a->claiming, 0);
        (void) asker_void(a);

    } else if (strcmp(verb, "tells") == 0) {
        (void) asker_tell(a);

    } else if (strcmp(verb, "dies") == 0) {
        dead[strlen(dead)] = name;

    } else if (strcmp(verb, "is complete") == 0) {
        assert_true(a->q.complete);

    } else if (strcmp(verb, "is not complete") == 0) {
        assert_false(a->q.complete);

    } else if (strcmp(verb, "watches") == 0) {
        (void) asker_watch(a);

    } else if (strcmp(verb, "is lost") == 0) {
        assert_true(asker_lost(a));

    } else if (strcmp(verb, "is not lost") == 0) {
        assert_false(asker_lost(a));

    } else if (strcmp(verb, "reclaims") == 0) {
        (void) asker_reclaim(a, a->claiming);

    } else if (sscanf(verb, "answers %u", &status) == 1) {
        (void) asker_answer(a, a->claiming, status);

        if (status >= 300) {
            (void) asker_finish(a, a->claiming, CHAT_END_FAILED);
        }

    } else if (sscanf(verb, "ends %31s", how) == 1) {
        while (strcmp(chat_end_names[(chat_end_e) end], how) != 0) {
            assert_true(++end <= CHAT_END_INTERRUPTED);
        }
        (void) asker_finish(a, a->claiming, (chat_end_e) end);

    } else {
        return 0;
    }

    return 1;
}


static inline void
play_line(char *line)
{
    char    *arrow, *verb, whole[256];
    asker_t *a;

    snprintf(whole, sizeof(whole), "%s", line);

    if (play_fact(line)) {
        return;
    }

    assert_true(line[0] >= 'A' && line[0] <= 'Z' && line[1] == ' ');
    a = &askers[line[0] - 'A'];
    verb = line + 2;

    arrow = strstr(verb, " -> ");
    if (arrow == NULL) {
        if (!play_deed(a, line[0], verb)) {
            fail_msg("what is: %s", whole);
        }
        return;
    }

    *arrow = '\0';

    if (strncmp(verb, "asks ", 5) == 0) {
        play_asks(a, line[0], verb + 5, whole);

    } else if (strcmp(verb, "claims") == 0) {
        asker_claim(a);
        asker_look(a);

    } else if (strcmp(verb, "rejoins") == 0) {
        (void) asker_rejoin(a);
        asker_look(a);

    } else if (strcmp(verb, "looks") == 0) {
        asker_look(a);

    } else {
        fail_msg("what is: %s", whole);
    }

    play_expect(a, arrow + 4, whole);
}


static inline void
play(const char *name, const char *script)
{
    int         i;
    char       *line, *rest = NULL;
    static char text[2048];

    dialect = chat_dialect_find(chat_cstr(name));
    assert_non_null(dialect);
    assert_true(strlen(script) < sizeof(text));
    strcpy(text, script);
    store_begin();

    for (line = strtok_r(text, ";", &rest); line != NULL;
         line = strtok_r(NULL, ";", &rest))
    {
        play_line(line);
    }

    for (i = 0; i < 26; i++) {
        if (askers[i].arena != NULL) {
            asker_end(&askers[i]);
        }
    }
}


/* The script with every dialect. */
static inline void
play_each(const char *script)
{
    size_t i;

    for (i = 0; chat_dialects[i] != NULL; i++) {
        play(chat_dialects[i]->name, script);
    }
}


static inline int
play_over(void **state)
{
    store_end();
    return 0;
}


#endif /* GATE_PLAY_H */
