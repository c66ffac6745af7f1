/*
 * test_json.c: the parser's tree, its spans, and how it is read.
 *
 * Tables of texts that parse, with all spans, and of texts that must not;
 * the bounds; the functions that read the tree. Mutants of samples, and
 * strings with each byte at each place, are parsed as yajl does; they lie at
 * the end of memory of their own, for the sanitizer.
 */

#define _GNU_SOURCE

#include "arena_run.h"
#include "../fuzz/yajl_tree.h"

#include <sys/mman.h>
#include <time.h>

/* The scanner as machines without SSE2 have it, under another name. */
#define CHAT_SCAN_PORTABLE
#define chat_json_letters portable_letters
#define chat_json_is_short portable_is_short
#define chat_json_string_end portable_string_end
#define chat_json_any_string_end portable_any_string_end
#define chat_json_number_end portable_number_end
#define chat_json_rank portable_rank
#include "../../shared/json/chat_json_scan.c"
#include "../buf_printf.h"
#undef CHAT_SCAN_PORTABLE
#undef CHAT_JSON_SCAN_H
#undef chat_json_rank
#undef chat_json_letters
#undef chat_json_is_short
#undef chat_json_string_end
#undef chat_json_any_string_end
#undef chat_json_number_end
#include "json/chat_json_scan.h"

#define MUTANTS 100000
#define SIZE 1024


static chat_rc_e
parse(chat_json_doc_t *doc, const char *text)
{
    return chat_json_parse(doc, arena, chat_cstr(text));
}


/*
 * The tree as text: each value as type<its bytes>, members with their key; the
 * type of an array that has other elements than objects is A.
 */
static void
dump(const chat_json_doc_t *doc, const chat_json_t *node, chat_buf_t *out)
{
    const chat_json_t *child;

    if (node->key_end != 0) {
        chat_buf_add(out, chat_str(doc->text.data + node->key_start,
                                   node->key_end - node->key_start));
        chat_buf_puts(out, "=");
    }

    chat_buf_printf(out, "%c<", node->opaque ? 'A' : "nftdsao"[node->type]);
    chat_buf_add(out, chat_json_raw(doc, node));
    chat_buf_puts(out, ">");

    for (child = node->child; child != NULL; child = child->next) {
        dump(doc, child, out);
    }
}


static const struct {
    const char *text;
    const char *want;
} trees[] = {
    { "1", "d<1>" },
    { " 1 ", "d<1>" },
    { "\t-1.5e+10\r\n", "d<-1.5e+10>" },
    { "\"\"", "s<\"\">" },
    { " null", "n<null>" },
    { "true ", "t<true>" },
    { "false", "f<false>" },
    { "[]", "a<[]>" },
    { " { } ", "o<{ }>" },
    { "[1,2]", "A<[1,2]>" },
    { "[ {} ,{ } ]", "a<[ {} ,{ } ]>o<{}>o<{ }>" },
    { "[ 1 ,{\"a\":[]}, 2.5 ]",
      "A<[ 1 ,{\"a\":[]}, 2.5 ]>o<{\"a\":[]}>\"a\"=a<[]>" },
    { "[[],{},[[{}]]]", "A<[[],{},[[{}]]]>o<{}>" },
    { "{\"a\":\"b\\\"c\",\"b\":\"\\\\\"}",
      "o<{\"a\":\"b\\\"c\",\"b\":\"\\\\\"}>\"a\"=s<\"b\\\"c\">"
      "\"b\"=s<\"\\\\\">" },
    { "[\",:\" , \"]\"]", "A<[\",:\" , \"]\"]>" },
    { "{\"a\":1,\"b\":{\"c\":[true,null]}}",
      "o<{\"a\":1,\"b\":{\"c\":[true,null]}}>\"a\"=d<1>"
      "\"b\"=o<{\"c\":[true,null]}>\"c\"=A<[true,null]>" },
    { "{ \"a\\n\" : \"x\" ,\n \"\" :-0 }",
      "o<{ \"a\\n\" : \"x\" ,\n \"\" :-0 }>\"a\\n\"=s<\"x\">\"\"=d<-0>" },
    { "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
      "s<\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\">" },
    { "1234567890123456789012345678901234567890",
      "d<1234567890123456789012345678901234567890>" },
};


static void
every_value_knows_its_bytes(void **state)
{
    size_t          i;
    chat_buf_t      out;
    chat_json_doc_t doc;

    for (i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
        memset(&out, 0, sizeof(out));
        assert_int_equal(parse(&doc, trees[i].text), CHAT_OK);
        dump(&doc, doc.root, &out);
        chat_buf_add(&out, chat_str("", 1));
        assert_string_equal((char *) out.data, trees[i].want);
        chat_buf_free(&out);
    }
}


/* clang-format off */
static const char *bad[] = {
    "", " ", "x", "tru", "nulll", "1 2", "1,", "[", "]", "[1", "[1,]", "[,1]",
    "[1 2]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\" 1}", "{a:1}",
    "{1:1}", "{}x", "{} {}", "[]]", "\"a", "\"a\\\"", "\"\\x\"", "\"\\u12\"",
    "\"\\u12g4\"", "\"a\nb\"", "\"a\x01\"", "{\"a\tb\":1}", "01", "1.", ".5",
    "+1", "-", "1e", "1e+", "0x10", "NaN", "/* c */ 1", "1 // c",
    "\xef\xbb\xbf{}",
    /* white space to yajl, but not to JSON */
    "\v1", "1\f", "[1\v]", "[\f]", "{\"a\"\v:1}", "{\f}", "[\v\"a\"]",
    "{\f\"a\":1}",
    /* not UTF-8: in a value, in a key, in an escaped string */
    "\"\x80\"", "\"\xff\"", "\"\xc3\"", "\"\xc3(\"", "\"\xe2\x82\"",
    "\"\xe2\x82", "\"\\n\xc3\"", "{\"\xff\":1}", "{\"a\\n\xe2(\":1}",
    /* overlong, surrogates, past U+10FFFF */
    "\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xe0\x9f\xbf\"", "\"\xed\xa0\x80\"",
    "\"\xed\xbf\xbf\"", "\"\xf0\x8f\xbf\xbf\"", "\"\xf4\x90\x80\x80\"",
    "\"\xf5\x80\x80\x80\"", "{\"\xed\xa0\x80\":1}",
};
/* clang-format on */


static void
what_is_no_json_is_refused(void **state)
{
    size_t          i;
    chat_json_doc_t doc;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (parse(&doc, bad[i]) != CHAT_BAD) {
            fail_msg("taken: %s", bad[i]);
        }

        assert_null(doc.root);
    }

    assert_int_equal(chat_json_parse(&doc, arena, chat_str("1\0", 2)),
                     CHAT_BAD);
    assert_int_equal(chat_json_parse(&doc, arena, chat_str("\"\0\"", 3)),
                     CHAT_BAD);
}


/* n times open, then text, then n times close. */
static chat_rc_e
parse_nested(size_t n, const char *open, const char *text, const char *close)
{
    size_t          i;
    chat_rc_e       rc;
    chat_buf_t      buf = { 0 };
    chat_json_doc_t doc;

    for (i = 0; i < n; i++) {
        chat_buf_puts(&buf, open);
    }

    chat_buf_puts(&buf, text);

    for (i = 0; i < n; i++) {
        chat_buf_puts(&buf, close);
    }

    rc = chat_json_parse(&doc, arena, chat_buf_str(&buf));
    chat_buf_free(&buf);

    return rc;
}


static void
depth_has_a_bound(void **state)
{
    clock_t from = clock();

    assert_int_equal(parse_nested(CHAT_JSON_DEPTH, "[", "1", "]"), CHAT_OK);
    assert_int_equal(parse_nested(CHAT_JSON_DEPTH + 1, "[", "", "]"),
                     CHAT_LIMIT);
    assert_int_equal(parse_nested(CHAT_JSON_DEPTH, "{\"a\":", "1", "}"),
                     CHAT_OK);
    assert_int_equal(parse_nested(CHAT_JSON_DEPTH + 1, "{\"a\":", "1", "}"),
                     CHAT_LIMIT);

    assert_int_equal(parse_nested(1000000, "[", "", "]"), CHAT_LIMIT);
    assert_int_equal(parse_nested(1000000, "[", "", ""), CHAT_LIMIT);
    assert_int_equal(parse_nested(1000000, "{\"a\":", "", ""), CHAT_LIMIT);

    assert_true(clock() - from < 2 * CLOCKS_PER_SEC);
}


/*
 * Issue 13, A5: a tool may return any number of values. Of what takes the
 * fewest bytes the tree takes the most memory.
 */
static void
a_tree_is_at_most_fourteen_times_its_text(void **state)
{
    size_t          i, k;
    chat_buf_t      buf = { 0 };
    chat_json_doc_t doc;

    static const struct {
        const char *element;
        size_t      count; /* in the tree */
    } lists[] = {
        { "1", 0 },       { "\"\"", 0 },        { "[]", 0 },
        { "{}", 300000 }, { "[{\"a\":1}]", 0 },
    };

    for (k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
        chat_arena_reset(arena);
        buf.len = 0;

        for (i = 0; i < 300000; i++) {
            chat_buf_puts(&buf, i ? "," : "{\"content\":[");
            chat_buf_puts(&buf, lists[k].element);
        }

        chat_buf_puts(&buf, "]}");
        assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(&buf)),
                         CHAT_OK);
        assert_int_equal(chat_json_count(doc.root->child), lists[k].count);
        assert_int_equal(doc.root->child->opaque, lists[k].count == 0);
        assert_true(chat_arena_used(arena)
                    <= (lists[k].count != 0 ? 14 * buf.len : 2048));
    }

    chat_buf_free(&buf);
}


static void
a_small_tree_is_at_most_10_kb_more(void **state)
{
    size_t          n;
    chat_buf_t      buf = { 0 };
    chat_json_doc_t doc;

    chat_buf_puts(&buf, "[{}");

    for (n = 1; n < 2000; n++) {
        chat_arena_reset(arena);
        chat_buf_puts(&buf, "]");
        assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(&buf)),
                         CHAT_OK);
        assert_true(chat_arena_used(arena) <= 14 * buf.len + 10240);

        buf.len--;
        chat_buf_puts(&buf, ",{}");
    }

    chat_buf_free(&buf);
}


static void
a_text_of_4_gb_is_refused_unread(void **state)
{
    chat_json_doc_t doc;

    assert_int_equal(
        chat_json_parse(&doc, arena, chat_str("1", (size_t) UINT32_MAX + 1)),
        CHAT_LIMIT);
}


static void
without_memory_it_says_so(void **state)
{
    size_t          limit;
    chat_rc_e       rc = CHAT_ERROR;
    chat_arena_t   *small;
    chat_json_doc_t doc;

    for (limit = 16; rc == CHAT_ERROR; limit += 16) {
        small = chat_arena_create(limit);
        rc = chat_json_parse(&doc, small, chat_cstr("{\"a\":[1,\"b\"]}"));
        assert_true(limit < 4096);
        chat_arena_destroy(small);
    }

    assert_int_equal(rc, CHAT_OK);
}


static void
nothing_outside_of_the_text_is_read(void **state)
{
    size_t          i, len;
    unsigned char  *page, *text;
    chat_json_doc_t doc;

    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    assert_int_equal(mprotect(page + 4096, 4096, PROT_NONE), 0);

    for (i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
        for (len = 0; len <= strlen(trees[i].text); len++) {
            text = page + 4096 - len;
            memcpy(text, trees[i].text, len);
            (void) chat_json_parse(&doc, arena, chat_str(text, len));
        }
    }

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        len = strlen(bad[i]);
        text = page + 4096 - len;
        memcpy(text, bad[i], len);
        assert_int_equal(chat_json_parse(&doc, arena, chat_str(text, len)),
                         CHAT_BAD);
    }

    (void) munmap(page, 8192);
}


static void
members_are_found_by_their_decoded_key(void **state)
{
    chat_json_t    *node;
    chat_json_doc_t doc;

    assert_int_equal(parse(&doc, "{\"t\\u0079pe\":1,\"typ\":2,\"types\":3,"
                                 "\"\":4,\"\\u00e9\":5,\"a\\u0000\":6}"),
                     CHAT_OK);

    node = chat_json_get(&doc, doc.root, "type");
    assert_int_equal(chat_json_index(&doc, node), 1);
    assert_int_equal(
        chat_json_index(&doc, chat_json_get(&doc, doc.root, "typ")), 2);
    assert_int_equal(
        chat_json_index(&doc, chat_json_get(&doc, doc.root, "types")), 3);
    assert_int_equal(chat_json_index(&doc, chat_json_get(&doc, doc.root, "")),
                     4);
    assert_int_equal(
        chat_json_index(&doc, chat_json_get(&doc, doc.root, "\xc3\xa9")), 5);
    assert_null(chat_json_get(&doc, doc.root, "a"));
    assert_null(chat_json_get(&doc, doc.root, "ty"));
    assert_null(chat_json_get(&doc, doc.root, "t\\u0079pe"));
    assert_false(doc.duplicate);

    assert_true(chat_json_key_is(&doc, node, "type", 0));
    assert_false(chat_json_key_is(&doc, node, "typ", 0));
    assert_false(chat_json_key_is(&doc, node, "typed", 0));
    assert_false(chat_json_key_is(&doc, doc.root, "", 0));

    assert_null(chat_json_get(&doc, NULL, "type"));
    assert_null(chat_json_get(&doc, node, "type"));
}


static void
of_duplicate_keys_the_last_counts_and_is_noted(void **state)
{
    chat_json_doc_t doc;

    assert_int_equal(parse(&doc, "{\"a\":1,\"b\":2,\"\\u0061\":3}"), CHAT_OK);
    assert_int_equal(chat_json_index(&doc, chat_json_get(&doc, doc.root, "b")),
                     2);
    assert_false(doc.duplicate);
    assert_int_equal(chat_json_index(&doc, chat_json_get(&doc, doc.root, "a")),
                     3);
    assert_true(doc.duplicate);
}


static const struct {
    const char *text;
    const char *want;
} strings[] = {
    { "\"\"", "" },
    { "\"abc\"", "abc" },
    { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
    { "\"a\\u0041\\u007f\\u00e9\\u20AC\\uFFFFz\"",
      "aA\x7f\xc3\xa9\xe2\x82\xac\xef\xbf\xbfz" },
    { "\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80" },
    { "\"\\uD800\\uDC00\\udbff\\udfff\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
    /* lone surrogates */
    { "\"\\ud800\"", "\xef\xbf\xbd" },
    { "\"\\udc00\"", "\xef\xbf\xbd" },
    { "\"\\ud800x\"", "\xef\xbf\xbdx" },
    { "\"\\ud800\\n\"", "\xef\xbf\xbd\n" },
    { "\"\\ud800\\u0041\"", "\xef\xbf\xbd"
                            "A" },
    { "\"\\udc00\\udc00\"", "\xef\xbf\xbd\xef\xbf\xbd" },
    { "\"\\udc00\\ud800\"", "\xef\xbf\xbd\xef\xbf\xbd" },
    { "\"\\ud800\\ud800\\udc00\"", "\xef\xbf\xbd\xf0\x90\x80\x80" },
};


static void
strings_are_decoded(void **state)
{
    size_t          i;
    chat_str_t      s;
    chat_json_doc_t doc;

    for (i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        assert_int_equal(parse(&doc, strings[i].text), CHAT_OK);
        s = chat_json_string(&doc, doc.root);
        assert_non_null(s.data);
        assert_true(chat_str_is(s, strings[i].want));
        assert_true(chat_json_is(&doc, doc.root, strings[i].want));
        assert_false(chat_json_is(&doc, doc.root, "else"));
    }

    /* what has no escapes is not copied */
    assert_int_equal(parse(&doc, "\"abc\""), CHAT_OK);
    assert_ptr_equal(chat_json_string(&doc, doc.root).data, doc.text.data + 1);

    assert_int_equal(parse(&doc, "\"a\\u0000b\""), CHAT_OK);
    s = chat_json_string(&doc, doc.root);
    assert_true(chat_str_eq(s, chat_str("a\0b", 3)));
    assert_false(chat_json_is(&doc, doc.root, "a"));
}


static void
other_types_read_as_absent(void **state)
{
    chat_json_doc_t doc;

    assert_int_equal(parse(&doc, "{\"a\":1,\"b\":{},\"c\":\"true\"}"),
                     CHAT_OK);
    assert_int_equal(chat_json_string(&doc, NULL).len, 0);
    assert_int_equal(chat_json_string(&doc, doc.root).len, 0);
    assert_int_equal(chat_json_raw(&doc, NULL).len, 0);
    assert_int_equal(chat_json_count(NULL), 0);
    assert_int_equal(chat_json_count(doc.root), 3);
    assert_int_equal(chat_json_count(doc.root->child), 0);
    assert_false(chat_json_true(NULL));
    assert_false(chat_json_true(doc.root->child->next->next));
    assert_false(chat_json_is(&doc, doc.root->child, "1"));
    assert_false(chat_json_is(&doc, NULL, ""));

    assert_int_equal(parse(&doc, "true"), CHAT_OK);
    assert_true(chat_json_true(doc.root));
}


static void
an_index_is_a_small_number(void **state)
{
    size_t          i;
    chat_json_doc_t doc;

    static const struct {
        const char *text;
        int32_t     want;
    } numbers[] = {
        { "0", 0 },
        { "7", 7 },
        { "2147483647", 2147483647 },
        { "2147483648", -1 },
        { "99999999999999999999999", -1 },
        { "-1", -1 },
        { "1.0", -1 },
        { "1e2", -1 },
        { "\"1\"", -1 },
        { "null", -1 },
    };

    for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_int_equal(parse(&doc, numbers[i].text), CHAT_OK);
        assert_int_equal(chat_json_index(&doc, doc.root), numbers[i].want);
    }

    assert_int_equal(chat_json_index(&doc, NULL), -1);
}


static void
members_are_found_by_their_type(void **state)
{
    chat_json_doc_t doc;

    assert_int_equal(parse(&doc,
                           "{\"a\":[1,{\"k\":\"v\"}],\"s\":\"x\",\"t\":true,"
                           "\"e\":[],\"f\":\"true\"}"),
                     CHAT_OK);
    assert_non_null(chat_json_typed(&doc, doc.root, "s", CHAT_JSON_STRING));
    assert_null(chat_json_typed(&doc, doc.root, "s", CHAT_JSON_ARRAY));
    assert_null(chat_json_typed(&doc, doc.root, "none", CHAT_JSON_NULL));
    assert_true(chat_json_has(
        &doc, chat_json_first(chat_json_get(&doc, doc.root, "a")), "k", "v"));
    assert_null(chat_json_first(chat_json_get(&doc, doc.root, "e")));
    assert_null(chat_json_first(chat_json_get(&doc, doc.root, "s")));
    assert_true(chat_json_has(&doc, doc.root, "s", "x"));
    assert_false(chat_json_has(&doc, doc.root, "none", ""));
    assert_true(chat_json_flag(&doc, doc.root, "t"));
    assert_false(chat_json_flag(&doc, doc.root, "f"));
}


static void
members_are_set(void **state)
{
    size_t          i;
    chat_buf_t      out = { 0 };
    chat_json_doc_t doc;

    const chat_json_member_t members[] = { { "a", CHAT_STR("1") },
                                           { "gone", { NULL, 0 } },
                                           { "n", CHAT_STR("[]") } };

    static const char *const rows[][2] = {
        { "{}", "{\"a\":1,\"n\":[]}" },
        { "{ \"gone\" : 1 }", "{\"a\":1,\"n\":[]}" },
        { "{\"x\": 1.0 ,\"\\u0061\":{\"a\":2},\"gone\":3}",
          "{\"x\":1.0,\"\\u0061\":1,\"n\":[]}" },
        { "{\"n\":0,\"gone\":1,\"a\":0,\"gonex\":\"\"}",
          "{\"n\":[],\"a\":1,\"gonex\":\"\"}" },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(parse(&doc, rows[i][0]), CHAT_OK);
        out.len = 0;
        chat_json_set(&doc, doc.root, members, 3, &out);
        assert_true(chat_str_is(chat_buf_str(&out), rows[i][1]));
    }

    out.len = 0;
    chat_json_set(&doc, NULL, &members[1], 1, &out);
    assert_true(chat_str_is(chat_buf_str(&out), "{}"));
    chat_buf_free(&out);
}


/* ---- compared with yajl ---- */


static uint32_t state_of_random = 1;


static uint32_t
number_below(uint32_t n)
{
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (state_of_random >> 8) % n;
}


/* Parses a copy of the text with both; 1 if it is JSON. */
static int
both(const unsigned char *data, size_t len)
{
    chat_rc_e       rc;
    unsigned char  *copy = malloc(len + (len == 0));
    chat_json_doc_t doc;

    assert_non_null(copy);
    memcpy(copy, data, len);

    rc = chat_json_parse(&doc, arena, chat_str(copy, len));
    if (!yajl_tree_agrees(&doc, rc)) {
        fail_msg("yajl differs (%d): %.*s", rc, (int) len,
                 (const char *) data);
    }

    free(copy);
    chat_arena_reset(arena);

    return rc == CHAT_OK;
}


static const char *const samples[] = {
    "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\","
    "\"content\":\"Hello \\\"world\\\"\\n\"},{\"role\":\"assistant\","
    "\"content\":null,\"tool_calls\":[{\"id\":\"call_1\",\"function\":"
    "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[1,2]}\"}}]}],\"n\":1}",
    " { \"a\\u0062\" : [ 0 , -1.5e+10 , 1E-7, 12.25 ] ,\r\n\t\"b\" : { } } ",
    "[[],{},[[]],\"\",null,true,false,-0,1e999,[{\"\":{\"\":[\"x\"]}}]]",
    "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf"
    " a long run of plain text behind it, then \\ud83d\\ude00 and \\/\"",
    "{\"\xd0\xba\xd0\xbb\xd1\x8e\xd1\x87\":\"\xe5\x80\xbc\xe5\x80\xbc\","
    "\"dup\":1,\"dup\":2,\"\\\\\":\"\\\\\\\"\"}",
    "[0.1,-12e5,1234567890123456789012345678901234567890,5,-7]",
    "  true  ",
    "3.25",
};

static const char *const pieces[] = {
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\t",
    "\v",
    "\f",
    "0",
    "-",
    ".",
    "e+1",
    "01",
    "1.5",
    "null",
    "true",
    "fals",
    "\\u",
    "\\u00e9",
    "\\x",
    "\\\"",
    "\\\\",
    "\x01",
    "\x1f",
    "\x7f",
    "\x80",
    "\xc3",
    "\xc0",
    "\xe2",
    "\xed\xa0\x80",
    "\xe2\x82\xac",
    "\xf0\x9f\x98\x80",
    "\xf4\x90",
    "\"k\":",
    "\"s\",",
    "[[[[[[[[[[[[[[[[[[[[",
    "]]]]]]]]]]]]]]]]]]]]",
    "abcdefgh",
    "//",
    "/**/",
    "\xef\xbb\xbf",
    "\n",
};


/*
 * Strings of many escapes or few, and of all characters, which begin anywhere
 * in a block of 16 or 64 bytes.
 */
static void
strings_end_alike_without_sse2(void **state)
{
    size_t               i, k, n, len, size, plain;
    unsigned             has, portable_has;
    unsigned char        text[160], *copy;
    const unsigned char *end, *portable_end;

    static const unsigned char bytes[] = "\\\\\\\"/bnuf0aaaaaa\xc3\xa9\x1f";
    static const char *const   characters[] = { "\xc3\xa9", "\xe2\x82\xac",
                                                "\xf0\x9f\x98\x80",
                                                "\xed\xa0\x80", "\xe2\x82" };

    for (i = 0; i < MUTANTS; i++) {
        plain = number_below(12) + 1;
        size = number_below(sizeof(text) - 3);
        for (len = 0; len < size; len += n) {
            n = 1;
            text[len] =
                bytes[number_below(number_below(4) ? 5 : sizeof(bytes) - 1)];
            text[len] = number_below(plain) ? 'a' : text[len];

            if (number_below(8) == 0) {
                k = number_below(number_below(8) ? 3 : 5);
                n = strlen(characters[k]);
                memcpy(text + len, characters[k], n);
            }
        }

        copy = malloc(len + (len == 0));
        assert_non_null(copy);
        memcpy(copy, text, len);
        has = portable_has = 0;
        end = chat_json_string_end(copy, copy + len, &has, 1 + len % 4);
        portable_end = portable_string_end(copy, copy + len, &portable_has, 1);
        assert_ptr_equal(end, portable_end);
        assert_true(end == NULL || has == portable_has);
        free(copy);
    }
}


/* Replaces n bytes at a place by a piece, or by bytes of the text itself. */
static size_t
mutate(unsigned char *text, size_t len)
{
    size_t        at = number_below((uint32_t) len + 1), n, add, from;
    unsigned char copy[SIZE];

    n = number_below(4) == 0 ? number_below(9) : number_below(2);
    n = n < len - at ? n : len - at;

    memcpy(copy, text, len);

    if (number_below(3) == 0 && len > 1) {
        from = number_below((uint32_t) len);
        add = number_below((uint32_t) (len - from)) + 1;

    } else {
        from = number_below(sizeof(pieces) / sizeof(pieces[0]));
        add = strlen(pieces[from]);
        memcpy(copy, pieces[from], add);
        from = 0;
    }

    if (len - n + add > SIZE) {
        return len;
    }

    memmove(text + at + add, text + at + n, len - at - n);
    memcpy(text + at, copy + from, add);

    return len - n + add;
}


static void
mutants_give_the_same_tree(void **state)
{
    int           i, k, valid = 0;
    size_t        len, sample;
    unsigned char text[SIZE];

    for (i = 0; i < MUTANTS; i++) {
        sample = number_below(sizeof(samples) / sizeof(samples[0]));
        len = strlen(samples[sample]);
        memcpy(text, samples[sample], len);

        for (k = (int) number_below(3); k >= 0; k--) {
            len = mutate(text, len);
        }

        valid += both(text, len);
    }

    /* both verdicts are frequent */
    assert_in_range(valid, MUTANTS / 20, MUTANTS / 2);
}


/* A word is read at once: each byte has to be seen at each place of it. */
static void
a_byte_has_its_meaning_at_each_place_of_a_string(void **state)
{
    int           ch;
    size_t        at, len;
    unsigned char text[40];

    for (len = 1; len <= 19; len++) {
        for (at = 0; at < len; at++) {
            memset(text, 'a', sizeof(text));
            text[0] = '"';
            text[len + 1] = '"';

            for (ch = 0; ch < 256; ch++) {
                text[1 + at] = (unsigned char) ch;
                both(text, len + 2);
            }
        }
    }
}


static void
each_cut_of_a_sample_is_told(void **state)
{
    size_t i, len;

    for (i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        for (len = 0; len <= strlen(samples[i]); len++) {
            both((const unsigned char *) samples[i], len);
        }
    }
}


static void
bounds_are_told_apart_from_bad_texts(void **state)
{
    size_t        depth;
    unsigned char text[400];

    for (depth = CHAT_JSON_DEPTH - 1; depth <= CHAT_JSON_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        both(text, 2 * depth);
        both(text, 2 * depth - 1);

        text[depth] = 0xff;
        both(text, 2 * depth);
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_knows_its_bytes),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(depth_has_a_bound),
        cmocka_unit_test(a_tree_is_at_most_fourteen_times_its_text),
        cmocka_unit_test(a_small_tree_is_at_most_10_kb_more),
        cmocka_unit_test(a_text_of_4_gb_is_refused_unread),
        cmocka_unit_test(without_memory_it_says_so),
        cmocka_unit_test(nothing_outside_of_the_text_is_read),
        cmocka_unit_test(members_are_found_by_their_decoded_key),
        cmocka_unit_test(of_duplicate_keys_the_last_counts_and_is_noted),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(other_types_read_as_absent),
        cmocka_unit_test(an_index_is_a_small_number),
        cmocka_unit_test(members_are_found_by_their_type),
        cmocka_unit_test(members_are_set),
        cmocka_unit_test(strings_end_alike_without_sse2),
        cmocka_unit_test(mutants_give_the_same_tree),
        cmocka_unit_test(a_byte_has_its_meaning_at_each_place_of_a_string),
        cmocka_unit_test(each_cut_of_a_sample_is_told),
        cmocka_unit_test(bounds_are_told_apart_from_bad_texts),
    };

    return cmocka_run_group_tests(tests, arena_create, arena_destroy);
}
