/*
 * gather.h: keeps the arguments of a call, as the core does for a reader.
 *
 * The owner frees them by chat_calls_free().
 */

#ifndef GATHER_H
#define GATHER_H

#include "dialect/chat_calls.h"


static inline void
gather(chat_calls_t *calls, const chat_event_t *event)
{
    switch (event->type) {
    case CHAT_EVENT_CALL_OPEN:
        chat_calls_args_free(calls, event->call);
        event->call->gathers = 1;
        break;

    case CHAT_EVENT_CALL_ARGS:
        calls->max_args = 1 << 20;
        chat_calls_args_add(calls, event->call, event->text);
        break;

    default:
        break;
    }
}


#endif /* GATHER_H */
