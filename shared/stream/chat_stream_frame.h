/*
 * chat_stream_frame.h: what the two files of the stream share.
 *
 * chat_stream.c has the bytes: what comes in, what goes out, the end.
 * chat_stream_frame.c has the frames: what they say, when and how they leave.
 * Nobody else includes this.
 */

#ifndef CHAT_STREAM_FRAME_H
#define CHAT_STREAM_FRAME_H

#include "stream/chat_stream.h"
#include "sse/chat_position.h"
#include "stream/chat_output.h"
#include "stream/chat_quarantine.h"
#include "sse/chat_skim.h"
#include "stream/chat_track.h"

struct chat_stream_s {
    chat_stream_conf_t conf;
    chat_arena_t      *arena;  /* lives as the stream */
    chat_arena_t      *frame;  /* as the frame that is looked at */
    chat_reader_t     *reader; /* of the dialect; has the calls */
    chat_sse_t         sse;
    chat_replay_t      replay;
    chat_quarantine_t  quarantine;
    chat_track_t       track;
    chat_output_t      output;
    chat_skim_t        skim;
    chat_number_t      number;
    chat_stream_info_t info;
    uint32_t           unread; /* info.content behind a frame past the limit */

    unsigned decided : 1;   /* the first frame with data was read */
    unsigned oversized : 1; /* the last bytes were a piece of a frame */
    unsigned silent : 1;    /* the client left: nothing goes out */
    unsigned over : 1;      /* finished, or failed */
    unsigned placed : 1;    /* the frame went out, or waits in quarantine */
};

/* These bytes go out as they came, unless the client has left. */
void chat_stream_pass(chat_stream_t *stream, chat_str_t bytes, int in_input);

/* These go out likewise, and are freed: a frame that is not the input's. */
void chat_stream_write(chat_stream_t *stream, chat_buf_t *bytes);

/*
 * Takes the next frame. CHAT_DECLINED: it is the first one, and none of the
 * dialect; CHAT_ERROR: no memory.
 */
chat_rc_e chat_stream_frame(chat_stream_t *stream, const chat_frame_t *frame);

/* 1 while a frame that the dialect calls boring does not matter. */
int chat_stream_may_skip(const chat_stream_t *stream);

/* Gives all that waits this verdict and lets it go. */
chat_rc_e chat_stream_settle(chat_stream_t *stream, chat_verdict_e verdict);

#endif /* CHAT_STREAM_FRAME_H */
