/*
 * test_canon.c: one canonical text for all notations of a JSON value.
 *
 * Two tables: a text, and another text of the same value. Rows with different
 * second texts are different values. Then what does not fit into a table: long
 * numbers, many keys, depth, other locales, no memory.
 */

#define _GNU_SOURCE

#include "json/chat_json.h"
#include "../buf_printf.h"
#include "../tenant.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

typedef struct {
    const char *text;
    const char *want;
} case_t;

static const case_t numbers[] = {
    { "0", "0" },
    { "-0", "0" },
    { "-0.0", "0" },
    { "0e5", "0" },
    { "-1", "-1" },
    { "1.0", "1" },
    { "1e3", "1000" },
    { "1E3", "1000" },
    { "1e+3", "1000" },
    { "100e-2", "1" },
    { "12.50", "12.5" },
    { "-12.5e-1", "-1.25" },
    { "0.1", "0.1" },
    { "0.000001", "0.000001" },
    { "0.0000015", "0.0000015" },
    { "1e-7", "1e-7" },
    { "0.0000001", "1e-7" },
    { "0.00000123", "0.00000123" },
    { "0.000000123", "1.23e-7" },
    { "1e20", "100000000000000000000" },
    { "1e21", "1e+21" },
    { "123456789012345678901", "123456789012345680000" },
    { "1234567890123456789012", "1.2345678901234568e+21" },
    { "999999999999999", "999999999999999" },
    { "9007199254740991", "9007199254740991" },
    { "9007199254740993", "9007199254740992" },
    { "12345678901234567", "12345678901234568" },
    { "-12345678901234567", "-12345678901234568" },
    { "0.30000000000000004", "0.30000000000000004" },
    { "333333333.33333329", "333333333.3333333" },
    { "1e23", "1e+23" },
    { "4.50", "4.5" },
    { "2e-3", "0.002" },
    { "0.000000000000000000000000001", "1e-27" },
    /* below a power of two the nearest of 16 digits is not the one */
    { "5.684341886080801e-14", "5.684341886080801e-14" },
    { "5.6843418860808015e-14", "5.684341886080802e-14" },
    { "9.007199254740992e15", "9007199254740992" },
    /* the ends of the range */
    { "5e-324", "5e-324" },
    { "4.9406564584124654e-324", "5e-324" },
    { "1.5e-323", "1.5e-323" },
    { "2.2250738585072014e-308", "2.2250738585072014e-308" },
    { "2.225073858507201e-308", "2.225073858507201e-308" },
    { "1.7976931348623157e308", "1.7976931348623157e+308" },
    { "1e-400", "0" },
    { "-1e-99999999999999999999", "0" },
    { "0e99999999999999999999", "0" },
    /* no double is that large: unchanged */
    { "1e999", "1e999" },
    { "-1E+0999", "-1E+0999" },
    { "1e99999999999999999999", "1e99999999999999999999" },
};

static const case_t values[] = {
    { "null", "null" },
    { " [ true , false ] ", "[true,false]" },
    { "{ }", "{}" },
    { "[ ]", "[]" },
    { "{\"b\":1,\"a\":2}", "{\"a\":2,\"b\":1}" },
    { "{\"b\":[{\"d\":1.0,\"c\":2}],\"\":{}}",
      "{\"\":{},\"b\":[{\"c\":2,\"d\":1}]}" },
    /* what the tree lacks: elements, arrays in arrays and what they have */
    { "[1,\"a\",[2.0]]", "[1,\"a\",[2]]" },
    { "[[-0],1000000000000000]", "[[0],1e15]" },
    { "{\"a\":[[{\"c\":1,\"b\":2}]],\"bb\":7}",
      "{\"a\":[[{\"b\":2,\"c\":1}]],\"bb\":7}" },
    { "[[{\"\\/\":1}],[\"\\u0041\"]]", "[[{\"/\":1}],[\"A\"]]" },
    /* a key before those that go on */
    { "{\"ab\":1,\"a\":2,\"aa\":3}", "{\"a\":2,\"aa\":3,\"ab\":1}" },
    { "{\"10\":1,\"9\":2,\"B\":3,\"a\":4}",
      "{\"10\":1,\"9\":2,\"B\":3,\"a\":4}" },
    /* the last of duplicates, however it is written */
    { "{\"a\":1,\"\\u0061\":2,\"b\":0,\"a\":3}", "{\"a\":3,\"b\":0}" },
    /* keys of one rank, which the parser sees out of order */
    { "{\"axc\":1,\"abc\":2,\"axc\":3}", "{\"abc\":2,\"axc\":3}" },
    /* strings: what must be escaped, in its shortest form */
    { "\"\\u0041\\/\\u007f\"", "\"A/\x7f\"" },
    { "\"\\u0000\\u001f\\u0008\\u0009\\u000A\\u000c\\u000d\\u0022\\u005C\"",
      "\"\\u0000\\u001f\\b\\t\\n\\f\\r\\\"\\\\\"" },
    { "\"\\u20ac\\ud83d\\ude00\"", "\"\xe2\x82\xac\xf0\x9f\x98\x80\"" },
    { "\"\\ud800\"", "\"\xef\xbf\xbd\"" },
    { "{\"\\n\":1,\"\\u000b\":2}", "{\"\\n\":1,\"\\u000b\":2}" },
    { "{\"\xef\xac\xb3\":1,\"\xf0\x9f\x98\x80\":2,\"\xee\x80\x80\":3,"
      "\"\xed\x9f\xbf\":4,\"\xe2\x82\xac\":5,\"\xf4\x8f\xbf\xbf\":6}",
      "{\"\xe2\x82\xac\":5,\"\xed\x9f\xbf\":4,\"\xf0\x9f\x98\x80\":2,"
      "\"\xf4\x8f\xbf\xbf\":6,\"\xee\x80\x80\":3,\"\xef\xac\xb3\":1}" },
    /* keys of one to four bytes a character */
    { "{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\","
      "\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\","
      "\"\\ud83d\\ude00\":\"Emoji: Grinning Face\","
      "\"\\u0080\":\"Control\","
      "\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}",
      "{\"\\r\":\"Carriage Return\",\"1\":\"One\","
      "\"\xc2\x80\":\"Control\","
      "\"\xc3\xb6\":\"Latin Small Letter O With Diaeresis\","
      "\"\xe2\x82\xac\":\"Euro Sign\","
      "\"\xf0\x9f\x98\x80\":\"Emoji: Grinning Face\","
      "\"\xef\xac\xb3\":\"Hebrew Letter Dalet With Dagesh\"}" },
};


static void
canon(chat_str_t text, chat_buf_t *out)
{
    chat_arena_t   *arena = chat_arena_create(0);
    chat_json_doc_t doc;

    memset(out, 0, sizeof(chat_buf_t));
    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);
    chat_json_canon(&doc, doc.root, out);
    assert_false(out->failed);
    chat_arena_destroy(arena);
}


static int
is_one_value(const char *a, const char *b)
{
    int        same;
    chat_buf_t one, other;

    canon(chat_cstr(a), &one);
    canon(chat_cstr(b), &other);
    same = chat_str_eq(chat_buf_str(&one), chat_buf_str(&other));
    chat_buf_free(&one);
    chat_buf_free(&other);

    return same;
}


static void
check(const case_t *cases, size_t n)
{
    size_t i, k;

    for (i = 0; i < n; i++) {
        assert_true(is_one_value(cases[i].text, cases[i].want));

        for (k = 0; k < n; k++) {
            assert_int_equal(is_one_value(cases[i].text, cases[k].text),
                             strcmp(cases[i].want, cases[k].want) == 0);
        }
    }
}


static void
s106_numbers_are_compared_as_doubles(void **state)
{
    check(numbers, sizeof(numbers) / sizeof(numbers[0]));
}


static void
values_have_one_form(void **state)
{
    check(values, sizeof(values) / sizeof(values[0]));
}


/* Nothing has to be sorted to digest what most clients send. */
static void
usual_messages_are_their_own_form(void **state)
{
    size_t     i;
    chat_buf_t out;

    static const char *const texts[] = {
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}",
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
        "\"1\","
        "\"type\":\"function\",\"function\":{\"name\":\"a\",\"arguments\":"
        "\"\"}}]}",
        "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"a\"}",
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
        "\"tool_use_id\":\"1\",\"content\":\"a\"}]}",
        "{\"role\":\"user\",\"parts\":[{\"functionResponse\":{\"name\":\"a\","
        "\"response\":{}}}]}",
        "{\"type\":\"function_call_output\",\"call_id\":\"1\","
        "\"output\":\"a\"}",
        "{\"type\":\"function_call\",\"name\":\"a\",\"arguments\":\"\","
        "\"call_id\":\"1\"}",
        "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":"
        "\"input_text\",\"text\":\"a\"}]}",
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
        "\"thinking\":\"a\",\"signature\":\"b\"},{\"type\":\"text\","
        "\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}}]}",
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
        "\"tool_use_id\":\"1\",\"content\":\"a\",\"is_error\":true}]}",
        "{\"role\":\"model\",\"parts\":[{\"functionCall\":{\"id\":\"1\","
        "\"name\":\"a\",\"args\":{}},\"thoughtSignature\":\"b\"}]}",
        "{\"id\":\"1\",\"role\":\"user\",\"parts\":[{\"type\":\"text\","
        "\"text\":\"a\"}]}",
        "{\"id\":\"1\",\"role\":\"assistant\",\"content\":\"a\","
        "\"toolCalls\":[{\"id\":\"1\",\"type\":\"function\","
        "\"function\":{\"name\":\"a\",\"arguments\":\"\"}}]}",
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        canon(chat_cstr(texts[i]), &out);
        assert_true(chat_str_eq(chat_buf_str(&out), chat_cstr(texts[i])));
        chat_buf_free(&out);
    }
}


static void
numbers_of_any_length_are_read(void **state)
{
    size_t     i;
    chat_buf_t text = { 0 };

    /* 0.000...1e100001 is 10 */
    chat_buf_puts(&text, "0.");
    for (i = 0; i < 99999; i++) {
        chat_buf_puts(&text, "0");
    }
    chat_buf_add(&text, chat_str("1e100001", 9));
    assert_true(is_one_value((char *) text.data, "10"));

    /* 100...0e-100000 is 1 */
    text.len = 0;
    chat_buf_puts(&text, "1");
    for (i = 0; i < 100000; i++) {
        chat_buf_puts(&text, "0");
    }
    chat_buf_add(&text, chat_str("e-100000", 9));
    assert_true(is_one_value((char *) text.data, "1"));
    chat_buf_free(&text);
}


static void
the_locale_makes_no_difference(void **state)
{
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL) {
        print_message("no locale with a decimal comma is installed\n");
        skip();
    }

    check(numbers, sizeof(numbers) / sizeof(numbers[0]));
    (void) setlocale(LC_ALL, "C");
}


static void
sorting_is_n_log_n(void **state)
{
    size_t     i, n = 200000;
    clock_t    from;
    chat_buf_t text = { 0 }, out;

    /* keys of many ranks: each has a first and last character and a length */
    for (i = 0; i < n; i++) {
        chat_buf_printf(&text, "%s\"%c%0*d%c\":%zu", i == 0 ? "{" : ",",
                        (int) ('#' + i % 57), (int) (i / 3249 + 1), 0,
                        (int) ('#' + i / 57 % 57), i);
    }

    chat_buf_puts(&text, "}");

    from = clock();
    canon(chat_buf_str(&text), &out);
    assert_true(clock() - from < 10 * CLOCKS_PER_SEC);

    chat_buf_free(&text);
    chat_buf_free(&out);
}


static void
the_deepest_tree_has_a_form(void **state)
{
    size_t     i;
    chat_buf_t text = { 0 }, out;

    for (i = 0; i < CHAT_JSON_DEPTH; i++) {
        chat_buf_puts(&text, i % 2 ? "[" : "{\"a\":");
    }

    chat_buf_puts(&text, "true");

    for (i = CHAT_JSON_DEPTH; i > 0; i--) {
        chat_buf_puts(&text, (i - 1) % 2 ? "]" : "}");
    }

    canon(chat_buf_str(&text), &out);
    assert_true(chat_str_eq(chat_buf_str(&text), chat_buf_str(&out)));

    chat_buf_free(&text);
    chat_buf_free(&out);
}


static chat_hash_t
hash(const char *text)
{
    chat_mix_t      mix;
    chat_hash_t     value;
    chat_arena_t   *arena = chat_arena_create(0);
    chat_json_doc_t doc;

    chat_mix_init(&mix, &test_tenant);
    assert_int_equal(chat_json_parse(&doc, arena, chat_cstr(text)), CHAT_OK);
    assert_int_equal(chat_json_mix(&doc, doc.root, &mix), CHAT_OK);
    chat_mix_end(&mix, value.bytes);
    chat_arena_destroy(arena);

    return value;
}


static void
a_hash_is_of_the_value(void **state)
{
    chat_hash_t a, b;

    a = hash("{\"a\":1.0,\"b\":\"\\u0041\"}");
    b = hash("{ \"b\" : \"A\", \"a\" : 1 }");
    assert_true(chat_hash_eq(&a, &b));

    b = hash("{\"a\":1,\"b\":\"B\"}");
    assert_false(chat_hash_eq(&a, &b));

    a = hash("{\"a\":[null],\"b\":\"A\"}");
    b = test_hash(chat_cstr("{\"a\":[null],\"b\":\"A\"}"));
    assert_true(chat_hash_eq(&a, &b));

    a = hash(" \"a\\u0041\\/\\n\" ");
    b = hash("\"aA/\\n\"");
    assert_true(chat_hash_eq(&a, &b));

    b = test_hash(chat_cstr("\"aA/\\n\""));
    assert_true(chat_hash_eq(&a, &b));
}


/* The text of a value as JSON of the tree, and of the text alone. */
static void
tree_and_text_have_one_form(void **state)
{
    size_t            i;
    chat_buf_t        tree, text, array = { 0 };
    const char *const texts[] = {
        "{}",
        "[]",
        "[{}]",
        "\"\"",
        "\"\\u0041\\/\"",
        "1.0",
        "null",
        "{\"b\":1,\"a\":{\"d\":[{\"f\":1,\"e\":2},{}],"
        "\"c\":[1,{\"z\":1,\"y\":2}]}}",
        "{\"a\":1,\"b\":2,\"a\":3,\"a\":{\"x\":\"\\u000a\"}}",
        "{\"bb\":1,\"a\":2,\"\\u0061\":3}",
        /* sixteen keys, and one more */
        "{\"p\":2,\"o\":3,\"n\":4,\"m\":5,\"l\":6,\"k\":7,\"j\":8,\"i\":9,"
        "\"h\":1,\"g\":2,\"f\":3,\"e\":4,\"d\":5,\"c\":6,\"b\":7,\"a\":8,"
        "\"p\":1}",
        "{\"q\":1,\"p\":2,\"o\":3,\"n\":4,\"m\":5,\"l\":6,\"k\":7,\"j\":8,"
        "\"i\":9,\"h\":1,\"g\":2,\"f\":3,\"e\":4,\"d\":5,\"c\":6,\"b\":7,"
        "\"a\":8,\"a\":9}",
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        canon(chat_cstr(texts[i]), &tree);

        /* the tree does not have what is in an array of an array */
        array.len = 0;
        chat_buf_format(&array, "[[0,%s]]", texts[i]);
        canon(chat_buf_str(&array), &text);

        array.len = 0;
        chat_buf_format(&array, "[[0,%v]]", chat_buf_str(&tree));
        assert_true(chat_str_eq(chat_buf_str(&array), chat_buf_str(&text)));
        chat_buf_free(&tree);
        chat_buf_free(&text);
    }

    chat_buf_free(&array);
}


/* A number below n that follows from the seed and the place alone. */
static unsigned
number(uint64_t seed, uint64_t place, unsigned n)
{
    uint64_t mixed =
        (seed + place * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;

    mixed = (mixed ^ mixed >> 33) * 0xc4ceb9fe1a85ec53u;
    return (unsigned) (mixed >> 40) % n;
}


/* Writes the value of this seed; style: how, 0: in the plainest way. */
static void
write_value(uint64_t seed, uint64_t style, unsigned depth, chat_buf_t *out)
{
    size_t      i, n = number(seed, 1, 4), first;
    unsigned    type = number(seed, 0, depth < 5 ? 8 : 4);
    const char *space = style && number(style, seed, 5) == 0 ? " " : "";

    static const char *const scalars[][2] = {
        { "7", "7.0" },
        { "\"a\"", "\"\\u0061\"" },
        { "\"/\"", "\"\\/\"" },
        { "null", "null" },
    };
    static const char *const keys[][2] = {
        { "\"id\"", "\"\\u0069d\"" },
        { "\"type\"", "\"type\"" },
        { "\"text\"", "\"t\\u0065xt\"" },
        { "\"a/b\"", "\"a\\/b\"" },
    };

    if (type < 4) {
        chat_buf_format(out, "%s%s",
                        scalars[type][style && number(style, seed, 3) == 0],
                        space);
        return;
    }

    first = style ? number(style, seed + 1, 4) : 0;
    chat_buf_format(out, "%s%s", type < 6 ? "[" : "{", space);

    for (i = 0; i < n; i++) {
        /* an array keeps its order */
        size_t at = type < 6 ? i : (i + first) % n;

        chat_buf_puts(out, i != 0 ? "," : "");

        if (type >= 6) {
            chat_buf_format(
                out, "%s:%s",
                keys[at][style && number(style, seed + at, 6) == 0], space);
        }

        write_value(seed * 31 + at + 1, style, depth + 1, out);
    }

    chat_buf_puts(out, type < 6 ? "]" : "}");
}


static void
however_it_is_written_a_value_has_one_form(void **state)
{
    uint64_t   seed;
    chat_buf_t text, plain, other;

    for (seed = 1; seed <= 30000; seed++) {
        text = (chat_buf_t){ 0 };
        write_value(seed / 3, 0, 0, &text);
        canon(chat_buf_str(&text), &plain);

        text.len = 0;
        write_value(seed / 3, seed, 0, &text);
        canon(chat_buf_str(&text), &other);

        if (!chat_str_eq(chat_buf_str(&plain), chat_buf_str(&other))) {
            fail_msg("seed %u: %.*s", (unsigned) seed, (int) text.len,
                     (const char *) text.data);
        }

        chat_buf_free(&text);
        chat_buf_free(&plain);
        chat_buf_free(&other);
    }
}


/* The tree of a body does not have what is in an array of an array. */
static void
objects_in_nested_arrays_are_sorted_at_each_level(void **state)
{
    unsigned   i;
    chat_buf_t text = { 0 }, want = { 0 }, out;

    chat_buf_puts(&text, "[0,[");
    chat_buf_puts(&want, "[0,[");

    for (i = 0; i < 50; i++) {
        chat_buf_puts(&text, "[ 1, {\"b\":");
        chat_buf_puts(&want, "[1,{\"a\":1,\"b\":");
    }

    chat_buf_puts(&text, "[]");
    chat_buf_puts(&want, "[]");

    for (i = 0; i < 50; i++) {
        chat_buf_puts(&text, ",\"a\":1}, [ ] ]");
        chat_buf_puts(&want, "},[]]");
    }

    chat_buf_puts(&text, "],2]");
    chat_buf_puts(&want, "],2]");

    canon(chat_buf_str(&text), &out);
    assert_true(chat_str_eq(chat_buf_str(&out), chat_buf_str(&want)));

    chat_buf_free(&text);
    chat_buf_free(&want);
    chat_buf_free(&out);
}


static void
without_memory_it_says_so(void **state)
{
    size_t          limit, used;
    chat_buf_t      out;
    chat_arena_t   *arena;
    chat_json_doc_t doc;
    const char     *text = "{\"a\\u006e\":[\"\\u0062\\n\",[true]],\"c\":{}}";

    arena = chat_arena_create(0);
    assert_int_equal(chat_json_parse(&doc, arena, chat_cstr(text)), CHAT_OK);
    used = chat_arena_used(arena);
    chat_arena_destroy(arena);

    for (limit = used;; limit += 16) {
        memset(&out, 0, sizeof(out));
        arena = chat_arena_create(limit);
        assert_int_equal(chat_json_parse(&doc, arena, chat_cstr(text)),
                         CHAT_OK);
        chat_json_canon(&doc, doc.root, &out);
        chat_arena_destroy(arena);

        if (!out.failed) {
            break;
        }

        chat_buf_free(&out);
    }

    assert_true(limit > used);
    assert_true(chat_str_is(chat_buf_str(&out),
                            "{\"c\":{},\"an\":[\"b\\n\",[true]]}"));
    chat_buf_free(&out);
}


/* A result may be of arrays that the tree does not have. */
static void
many_arrays_in_an_array_take_no_memory(void **state)
{
    size_t          i;
    chat_buf_t      text = { 0 }, out = { 0 };
    chat_arena_t   *arena = chat_arena_create(4096);
    chat_json_doc_t doc;

    chat_buf_puts(&text, "[");
    for (i = 0; i < 1000; i++) {
        chat_buf_puts(&text, "[],[1.0],");
    }
    chat_buf_puts(&text, "0]");

    assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(&text)),
                     CHAT_OK);
    chat_json_canon(&doc, doc.root, &out);
    assert_false(out.failed);
    assert_int_equal(out.len, text.len - 2 * 1000);

    chat_buf_free(&text);
    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s106_numbers_are_compared_as_doubles),
        cmocka_unit_test(values_have_one_form),
        cmocka_unit_test(tree_and_text_have_one_form),
        cmocka_unit_test(usual_messages_are_their_own_form),
        cmocka_unit_test(however_it_is_written_a_value_has_one_form),
        cmocka_unit_test(numbers_of_any_length_are_read),
        cmocka_unit_test(the_locale_makes_no_difference),
        cmocka_unit_test(sorting_is_n_log_n),
        cmocka_unit_test(the_deepest_tree_has_a_form),
        cmocka_unit_test(a_hash_is_of_the_value),
        cmocka_unit_test(objects_in_nested_arrays_are_sorted_at_each_level),
        cmocka_unit_test(without_memory_it_says_so),
        cmocka_unit_test(many_arrays_in_an_array_take_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
