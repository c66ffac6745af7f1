/*
 * chat_json.h: JSON text as a tree of byte spans.
 *
 * Every value knows where it stands in the text, so that a caller can cut,
 * compare or splice the very bytes. Of an array the tree has the objects: no
 * caller looks at other elements, and a result can have any number of them.
 * So a tree takes at most fourteen times its text and 10 KB of arena. Invalid
 * UTF-8, trailing bytes and depth above CHAT_JSON_DEPTH are refused.
 */

#ifndef CHAT_JSON_H
#define CHAT_JSON_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "bytes/chat_mix.h"
#include "bytes/chat_word.h"

#define CHAT_JSON_DEPTH 128
#define CHAT_JSON_KEYS 4 /* of has: a key with an escape */

typedef enum {
    CHAT_JSON_NULL,
    CHAT_JSON_FALSE,
    CHAT_JSON_TRUE,
    CHAT_JSON_NUMBER,
    CHAT_JSON_STRING,
    CHAT_JSON_ARRAY,
    CHAT_JSON_OBJECT,
    CHAT_JSON_TYPES
} chat_json_type_e;

typedef struct chat_json_s chat_json_t;

struct chat_json_s {
    chat_json_t     *next;      /* the next member or object, or NULL */
    chat_json_t     *child;     /* the first one, or NULL */
    uint32_t         start;     /* of the value in the text, quotes included */
    uint32_t         end;       /* one past it */
    uint32_t         key_start; /* of the member's key, quotes included */
    uint32_t         key_end;   /* one past it; 0: not a member */
    chat_json_type_e type;
    unsigned char    has;     /* it or a part of it: see chat_json_scan.h */
    unsigned char    key_has; /* likewise of its key */
    unsigned char    read;    /* 1: an accessor gave its value */
    unsigned char    opaque;  /* 1: an array with other elements, too */
};

typedef struct {
    chat_str_t    text; /* of the caller; must outlive the tree */
    chat_json_t  *root;
    chat_arena_t *arena;     /* of the caller; holds the tree */
    int           duplicate; /* chat_json_get() met a key twice */
    int           failed;    /* chat_json_string() had no memory */
} chat_json_doc_t;

/*
 * Parses the whole text. CHAT_BAD: not JSON; CHAT_LIMIT: too deep or above
 * 4 GB; CHAT_ERROR: no memory. Of an array the tree has elements of the least
 * type and above; CHAT_JSON_ARRAY: text is one, and more may follow.
 */
chat_rc_e chat_json_parse_some(chat_json_doc_t *doc, chat_arena_t *arena,
                               chat_str_t text, chat_json_type_e least);

static inline chat_rc_e
chat_json_parse(chat_json_doc_t *doc, chat_arena_t *arena, chat_str_t text)
{
    return chat_json_parse_some(doc, arena, text, CHAT_JSON_OBJECT);
}


/*
 * The member of object with this key, or NULL (also where object is NULL or
 * no object). Of duplicate keys the last, as JSON.parse() has it; then
 * doc->duplicate is set.
 */
chat_json_t *chat_json_find(chat_json_doc_t *doc, const chat_json_t *object,
                            const char *key, size_t len);

static inline chat_json_t *
chat_json_get(chat_json_doc_t *doc, const chat_json_t *object, const char *key)
{
    return chat_json_find(doc, object, key, strlen(key));
}


/* The same where it is of this type, else NULL. */
static inline chat_json_t *
chat_json_typed(chat_json_doc_t *doc, const chat_json_t *object,
                const char *key, chat_json_type_e type)
{
    chat_json_t *node = chat_json_get(doc, object, key);

    return node != NULL && node->type == type ? node : NULL;
}


/* The first object in a list, if that is an array, else NULL. */
static inline const chat_json_t *
chat_json_first(const chat_json_t *list)
{
    return list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;
}


/* 1 if s, a valid string between its quotes, is this text. */
int chat_json_same_decoded(chat_str_t s, const char *text, size_t len);

/* 1 if the member's own key is this one; plain: it has no escape. */
static inline __attribute__((always_inline)) int
chat_json_key_is(const chat_json_doc_t *doc, const chat_json_t *member,
                 const char *key, int plain)
{
    size_t               len = strlen(key);
    uint32_t             own = member->key_end - member->key_start;
    const unsigned char *text = doc->text.data + member->key_start + 1;

    return !plain && member->key_has != 0
               ? chat_json_same_decoded(chat_str(text, own - 2), key, len)
               : own == (uint32_t) len + 2
                     && chat_word_same(text, (const void *) key, len);
}


/* The same; then *found becomes the member. It is NULL at first. */
static inline __attribute__((always_inline)) int
chat_json_take(chat_json_doc_t *doc, const chat_json_t *member,
               const char *key, int plain, const chat_json_t **found)
{
    if (!chat_json_key_is(doc, member, key, plain)) {
        return 0;
    }

    doc->duplicate |= *found != NULL;
    *found = member;
    return 1;
}


/* As chat_json_get() of two or three keys in one pass; they are literals. */
static inline __attribute__((always_inline)) void
chat_json_pick(chat_json_doc_t *doc, const chat_json_t *object,
               const char *key1, const chat_json_t **value1, const char *key2,
               const chat_json_t **value2, const char *key3,
               const chat_json_t **value3)
{
    const chat_json_t *member = object ? object->child : NULL, *third = NULL;

    *value1 = *value2 = NULL;

    if (object != NULL && (object->has & CHAT_JSON_KEYS) != 0) {
        *value1 = chat_json_get(doc, object, key1);
        *value2 = chat_json_get(doc, object, key2);
        third = key3 ? chat_json_get(doc, object, key3) : NULL;
        member = NULL;
    }

    for (/* void */; member != NULL; member = member->next) {
        (void) (chat_json_take(doc, member, key1, 1, value1)
                || chat_json_take(doc, member, key2, 1, value2)
                || (key3 && chat_json_take(doc, member, key3, 1, &third)));
    }

    if (key3 != NULL) {
        *value3 = third;
    }
}


/*
 * The decoded characters of a string; empty where node is NULL, no string or
 * there is no memory (then doc->failed is set). Points into the text where
 * nothing is escaped, else into the arena. A lone surrogate becomes U+FFFD.
 */
chat_str_t chat_json_string(chat_json_doc_t *doc, const chat_json_t *node);

/* The same of the member of object with this key. */
static inline chat_str_t
chat_json_text(chat_json_doc_t *doc, const chat_json_t *object,
               const char *key)
{
    return chat_json_string(doc, chat_json_get(doc, object, key));
}


/*
 * Writes the decoded characters of s, a valid string between its quotes, to
 * out, which has room for s.len and CHAT_JSON_ROOM bytes; returns their end.
 */
#define CHAT_JSON_ROOM 4
unsigned char *chat_json_unescape(chat_str_t s, unsigned char *out);

/* 1 if node is a string of exactly these characters. */
int chat_json_is(chat_json_doc_t *doc, const chat_json_t *node,
                 const char *text);

/* 1 if the member of object with this key is a string, text; or true. */
static inline int
chat_json_has(chat_json_doc_t *doc, const chat_json_t *object, const char *key,
              const char *text)
{
    return chat_json_is(doc, chat_json_get(doc, object, key), text);
}


static inline int
chat_json_flag(chat_json_doc_t *doc, const chat_json_t *object,
               const char *key)
{
    return chat_json_typed(doc, object, key, CHAT_JSON_TRUE) != NULL;
}


/*
 * The bytes of the value as they stand in the text; empty where NULL. That a
 * caller looks at them is noted: see stream/chat_form.h.
 */
static inline chat_str_t
chat_json_raw(const chat_json_doc_t *doc, const chat_json_t *node)
{
    if (node == NULL) {
        return chat_str(NULL, 0);
    }

    ((chat_json_t *) node)->read = 1;
    return chat_str(doc->text.data + node->start, node->end - node->start);
}


/* The characters of a string, else the bytes of the value. */
static inline chat_str_t
chat_json_said(chat_json_doc_t *doc, const chat_json_t *node)
{
    return node != NULL && node->type == CHAT_JSON_STRING
               ? chat_json_string(doc, node)
               : chat_json_raw(doc, node);
}


/* 1 if node is an array without any element. */
static inline int
chat_json_is_empty(const chat_json_t *node)
{
    return node->child == NULL && !node->opaque;
}


/* 1 if node is true; 0 for everything else and for NULL. */
static inline int
chat_json_true(const chat_json_t *node)
{
    return node != NULL && node->type == CHAT_JSON_TRUE;
}


/* A number in 0..2^31-1 that is written in digits alone, else -1. */
int32_t chat_json_index(const chat_json_doc_t *doc, const chat_json_t *node);

/* A member for chat_json_set(): value is JSON text, or empty: it goes. */
typedef struct {
    const char *key;
    chat_str_t  value;
} chat_json_member_t;

/*
 * Appends the object (NULL: an empty one) with these n members: in their place
 * where it has them, else behind all others.
 */
void chat_json_set(chat_json_doc_t *doc, const chat_json_t *object,
                   const chat_json_member_t *members, size_t n,
                   chat_buf_t *out);

/* Number of members, or of objects in an array; 0 of NULL and scalars. */
size_t chat_json_count(const chat_json_t *node);

/*
 * Appends to out one text for all ways to write this value, to hash or to
 * compare (chat_json_canon.c). It is not JSON.
 */
void chat_json_canon(chat_json_doc_t *doc, const chat_json_t *node,
                     chat_buf_t *out);

/* The same of a member: of its key, a colon and its value. */
void chat_json_canon_member(chat_json_doc_t *doc, const chat_json_t *node,
                            chat_buf_t *out);

/* Adds that text of a value. CHAT_ERROR without memory. */
chat_rc_e chat_json_mix(chat_json_doc_t *doc, const chat_json_t *node,
                        chat_mix_t *mix);

#endif /* CHAT_JSON_H */
