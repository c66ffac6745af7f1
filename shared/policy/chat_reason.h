/*
 * chat_reason.h: $chat_verdict and $chat_reason: what became of a request, and
 * why.
 *
 * The one table of both. A reason belongs to one verdict, so a request has
 * only its reason. Metrics, logs and variables take their words from here;
 * docs/directives.md explains each row, t/config/reason.test.mjs provokes it.
 */

#ifndef CHAT_REASON_H
#define CHAT_REASON_H

/* The verdict of a request, in the order of the rows. */
typedef enum {
    CHAT_VERDICT_NONE, /* not a request that the module decides about */
    CHAT_VERDICT_PASSED,
    CHAT_VERDICT_HELD,
    CHAT_VERDICT_RELEASED,
    CHAT_VERDICT_ATTACHED,
    CHAT_VERDICT_EMPTY,
    CHAT_VERDICT_CONFLICT,
    CHAT_VERDICT_BOUNCED,
    CHAT_VERDICT_SUPERSEDED,
    CHAT_VERDICT_UNMANAGED,
    CHAT_VERDICT_REFUSED, /* past a limit, or without the store */
    CHAT_VERDICT_BYPASS,  /* the store could not be queried */
    CHAT_VERDICTS
} chat_request_verdict_e;

/* verdict, name, word; rows of one verdict stand together */
/* clang-format off */
#define CHAT_REASON_TABLE(row)                                \
    row(NONE, OFF, "off")                                     \
    row(NONE, NOT_POST, "not_post")                           \
    row(NONE, NOT_JSON, "not_json")                           \
    row(NONE, NOT_REACHED, "not_reached")                     \
    row(NONE, ENDPOINT, "endpoint")                           \
    row(NONE, DISCONNECTED, "disconnected")                   \
    row(NONE, MALFORMED, "malformed")                         \
    row(NONE, NOT_CHAT, "not_chat")                           \
    row(NONE, ERROR, "error")                                 \
    row(PASSED, NEW_MESSAGE, "new_message")                   \
    row(PASSED, REPAIRED, "repaired")                         \
    row(PASSED, COMPLETE, "complete")                         \
    row(PASSED, MERGED, "merged")                             \
    row(PASSED, NOT_SIBLING, "not_sibling")                   \
    row(PASSED, SUPERSEDED, "superseded")                     \
    row(PASSED, CLEARED, "cleared")                           \
    row(PASSED, REPEATED, "repeated")                         \
    row(PASSED, NO_RESULTS, "no_results")                     \
    row(PASSED, NO_CLIENT_CALLS, "no_client_calls")           \
    row(PASSED, REGENERATE, "regenerate")                     \
    row(PASSED, ITEMS, "items")                               \
    row(HELD, INCOMPLETE, "incomplete")                       \
    row(HELD, UNSEALED, "unsealed")                           \
    row(HELD, OTHER_REQUEST, "other_request")                 \
    row(HELD, SIBLING, "sibling")                             \
    row(RELEASED, COMPLETE, "complete")                       \
    row(RELEASED, MERGED, "merged")                           \
    row(RELEASED, NOT_SIBLING, "not_sibling")                 \
    row(RELEASED, SUPERSEDED, "superseded")                   \
    row(RELEASED, CLEARED, "cleared")                         \
    row(ATTACHED, SIBLING, "sibling")                         \
    row(ATTACHED, LATE, "late")                               \
    row(ATTACHED, RESUMED, "resumed")                         \
    row(EMPTY, SIBLING, "sibling")                            \
    row(EMPTY, LATE, "late")                                  \
    row(EMPTY, SUPERSEDED, "superseded")                      \
    row(EMPTY, CLEARED, "cleared")                            \
    row(CONFLICT, LATE, "late")                               \
    row(CONFLICT, NO_EMPTY_TURN, "no_empty_turn")             \
    row(CONFLICT, ABORTED, "aborted")                         \
    row(CONFLICT, UPSTREAM_ERROR, "upstream_error")           \
    row(CONFLICT, NO_STREAM, "no_stream")                     \
    row(CONFLICT, INTERRUPTED, "interrupted")                 \
    row(CONFLICT, PRODUCER_LOST, "producer_lost")             \
    row(BOUNCED, INCOMPLETE, "incomplete")                    \
    row(BOUNCED, UNLISTED, "unlisted")                        \
    row(BOUNCED, UNMERGED, "unmerged")                        \
    row(BOUNCED, ABORTED, "aborted")                          \
    row(BOUNCED, EXITING, "exiting")                          \
    row(BOUNCED, HELD_LIMIT, "held_limit")                    \
    row(BOUNCED, HELD_BYTES_LIMIT, "held_bytes_limit")        \
    row(BOUNCED, STORE_UNAVAILABLE, "store_unavailable")      \
    row(BOUNCED, STORE_FULL, "store_full")                    \
    row(SUPERSEDED, NEW_MESSAGE, "new_message")               \
    row(SUPERSEDED, CLEARED, "cleared")                       \
    row(UNMANAGED, NO_TENANT, "no_tenant")                    \
    row(UNMANAGED, WEAK_IDS, "weak_ids")                      \
    row(UNMANAGED, ENCODED_BODY, "encoded_body")              \
    row(UNMANAGED, SIGNED_BODY, "signed_body")                \
    row(UNMANAGED, UNKNOWN_BATCH, "unknown_batch")            \
    row(UNMANAGED, OTHER_STEP, "other_step")                  \
    row(REFUSED, BODY_LIMIT, "body_limit")                    \
    row(REFUSED, VALUES_LIMIT, "values_limit")                \
    row(REFUSED, CALLS_LIMIT, "calls_limit")                  \
    row(REFUSED, CONVERSATION_LIMIT, "conversation_limit")    \
    row(REFUSED, HELD_LIMIT, "held_limit")                    \
    row(REFUSED, HELD_BYTES_LIMIT, "held_bytes_limit")        \
    row(REFUSED, HELD_BATCH_LIMIT, "held_batch_limit")        \
    row(REFUSED, STORE_UNAVAILABLE, "store_unavailable")      \
    row(REFUSED, STORE_FULL, "store_full")                    \
    row(REFUSED, LOOP, "loop")                                \
    row(REFUSED, STOPPED, "stopped")                          \
    row(BYPASS, STORE_UNAVAILABLE, "store_unavailable")       \
    row(BYPASS, STORE_FULL, "store_full")
/* clang-format on */

typedef enum {
#define CHAT_REASON_NAME(verdict, name, word) CHAT_REASON_##verdict##_##name,
    CHAT_REASON_TABLE(CHAT_REASON_NAME)
#undef CHAT_REASON_NAME
    CHAT_REASONS
} chat_reason_e;

/* Requests with a reason before it are not read, and not counted. */
#define CHAT_REASON_COUNTED CHAT_REASON_NONE_ENDPOINT

typedef struct {
    chat_request_verdict_e verdict;
    const char            *word;
} chat_reason_t;

extern const char *const   chat_verdict_names[CHAT_VERDICTS];
extern const chat_reason_t chat_reasons[CHAT_REASONS];

#endif /* CHAT_REASON_H */
