/*
 * chat_filter.h: the replay filter's verdict on each event (DESIGN 5).
 *
 * It is told the calls that the client already has, then sees the events of
 * one stream in order, and says of each call: forward, drop, or wait until
 * its arguments are complete. The verdict is latched per call at its first
 * event. Must not know: bytes, frames, wire formats.
 */

#ifndef CHAT_FILTER_H
#define CHAT_FILTER_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "model/chat_event.h"
#include "model/chat_request.h"

typedef enum {
    CHAT_REPLAY_OFF,
    CHAT_REPLAY_ID,     /* a known id is a replay */
    CHAT_REPLAY_ID_ARGS /* a known id, name and arguments are a replay */
} chat_replay_e;

typedef enum {
    CHAT_VERDICT_FORWARD,
    CHAT_VERDICT_DROP,
    CHAT_VERDICT_WAIT
} chat_verdict_e;

typedef struct chat_filter_s chat_filter_t;

/*
 * A filter in the arena, which lives as the stream. known are the client's
 * own calls of its current turn (they must outlive the filter). strong_only:
 * only a call with a strong id (chat_id_is_strong()) can be a replay, because
 * the model may use a weak one again. NULL: no memory.
 */
chat_filter_t *chat_filter_create(chat_arena_t *arena, chat_replay_e mode,
                                  int strong_only, const chat_call_t *known,
                                  size_t n);

/*
 * Takes the next event of the stream and answers the verdict on the bytes
 * that carry it. For CALL_OPEN, CALL_ARGS and CALL_READY it may be WAIT: then
 * chat_filter_verdict(slot) will say what became of it. fingerprint is that
 * of a CALL_READY, else NULL.
 */
chat_verdict_e chat_filter_event(chat_filter_t       *filter,
                                 const chat_event_t  *event,
                                 const chat_digest_t *fingerprint);

/*
 * The verdict on a slot's opening as it stands now. A slot that is opened
 * again (a used id) has a new opening: generation says which, counted from 0
 * and told by chat_filter_generation() right after the event.
 */
chat_verdict_e chat_filter_verdict(const chat_filter_t *filter, uint32_t slot,
                                   uint32_t generation);
uint32_t chat_filter_generation(const chat_filter_t *filter, uint32_t slot);

/*
 * Settles all that waits: forward (the quarantine is full) or drop (the
 * stream is over).
 */
void chat_filter_settle(chat_filter_t *filter, chat_verdict_e verdict);

/*
 * The ids of the calls that were forwarded but never became ready, in order
 * of their opening: at most room of them into ids. Answers how many.
 */
size_t chat_filter_half_open(const chat_filter_t *filter, chat_str_t *ids,
                             size_t room);

typedef struct {
    uint32_t opened;  /* calls opened in this stream */
    uint32_t replays; /* calls dropped, and doubled openings */
    uint32_t reused;  /* known ids that were new calls */
    uint32_t results; /* results, denials and approval requests dropped */
} chat_filter_count_t;

const chat_filter_count_t *chat_filter_count(const chat_filter_t *filter);

#endif /* CHAT_FILTER_H */
