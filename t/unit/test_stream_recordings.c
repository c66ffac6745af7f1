/*
 * test_stream_recordings.c: real answers of providers, in pieces.
 *
 * Where they are at hand (../shared/recordings) each must come out byte for
 * byte, however it is cut, and be finished.
 */

#include "stream_run.h"

#include <dirent.h>

#define RECORDINGS "../shared/recordings"

static stream_t s;


static void
file_read(const char *path, chat_buf_t *out)
{
    char   bytes[65536];
    FILE  *file = fopen(path, "rb");
    size_t n;

    assert_non_null(file);
    while ((n = fread(bytes, 1, sizeof(bytes), file)) > 0) {
        chat_buf_add(out, chat_str(bytes, n));
    }
    fclose(file);
}


static void
file_passes(const char *dialect, const char *path)
{
    size_t              i;
    chat_buf_t          text = { 0 };
    stream_run_t        run;
    static const size_t steps[] = { 1, 7, 4096, 1 << 24 };

    file_read(path, &text);

    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        stream_begin(&s, dialect, NULL);
        s.conf.max_event = 1 << 20;
        stream_once(&s, (char *) text.data, text.len, steps[i], 0, &run);

        if (run.info.end != CHAT_END_FINISHED || run.count.replays != 0
            || run.out.len != text.len + 1
            || memcmp(run.out.data, text.data, text.len) != 0)
        {
            fail_msg("%s in pieces of %zu: end %s, %u replays", path, steps[i],
                     chat_end_name(run.info.end), run.count.replays);
        }

        stream_run_free(&run);
        stream_end(&s);
    }

    chat_buf_free(&text);
}


static void
recordings_pass_byte_for_byte(void **state)
{
    DIR                  *dir;
    char                  path[600];
    size_t                i, n = 0;
    struct dirent        *entry;
    chat_str_t            name;
    const chat_dialect_t *dialect;

    for (i = 0; chat_dialects[i] != NULL; i++) {
        dialect = chat_dialects[i];
        (void) snprintf(path, sizeof(path), "%s/%s", RECORDINGS,
                        dialect->name);
        dir = opendir(path);

        while (dir != NULL && (entry = readdir(dir)) != NULL) {
            name = chat_cstr(entry->d_name);
            if (name.len < 4
                || memcmp(name.data + name.len - 4, ".sse", 4) != 0) {
                continue;
            }

            (void) snprintf(path, sizeof(path), "%s/%s/%s", RECORDINGS,
                            dialect->name, entry->d_name);
            file_passes(dialect->name, path);
            n++;
        }

        if (dir != NULL) {
            closedir(dir);
        }
    }

    if (n == 0) {
        print_message("no recordings in %s\n", RECORDINGS);
        skip();
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_pass_byte_for_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
