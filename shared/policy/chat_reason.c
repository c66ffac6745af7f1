/*
 * chat_reason.c: the words of verdicts and reasons; see chat_reason.h.
 *
 * They are values of variables, labels of metrics and members of JSON, so
 * scripts and dashboards depend on them: none is renamed.
 */

#include "policy/chat_reason.h"


const char *const chat_verdict_names[] = {
    "none",     "passed",  "held",       "released",  "attached", "empty",
    "conflict", "bounced", "superseded", "unmanaged", "refused",  "bypass",
};

const chat_reason_t chat_reasons[] = {
#define CHAT_REASON_ROW(verdict, name, word) { CHAT_VERDICT_##verdict, word },
    CHAT_REASON_TABLE(CHAT_REASON_ROW)
#undef CHAT_REASON_ROW
};
