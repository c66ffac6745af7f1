/*
 * recordings.h: recorded answers of real providers, if available.
 *
 * They are beside the repository (../shared/recordings), one folder per
 * dialect; tests that need them are skipped if they are absent.
 */

#ifndef RECORDINGS_H
#define RECORDINGS_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bytes/chat_buf.h"

#define RECORDINGS "../shared/recordings"


static inline void
recording_read(const char *path, chat_buf_t *out)
{
    char   bytes[65536];
    FILE  *file = fopen(path, "rb");
    size_t n;

    assert_non_null(file);
    out->len = 0;
    while ((n = fread(bytes, 1, sizeof(bytes), file)) > 0) {
        chat_buf_add(out, chat_str(bytes, n));
    }
    fclose(file);
}


/*
 * Calls each() with every file of the dialect's folder; returns their number.
 */
static inline size_t
recordings_each(const char *dialect,
                void (*each)(const char *name, chat_str_t text))
{
    DIR           *dir;
    char           path[600];
    size_t         n = 0;
    chat_str_t     name;
    chat_buf_t     text = { 0 };
    struct dirent *entry;

    (void) snprintf(path, sizeof(path), "%s/%s", RECORDINGS, dialect);
    dir = opendir(path);

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        name = chat_cstr(entry->d_name);
        if (name.len < 4 || memcmp(name.data + name.len - 4, ".sse", 4) != 0) {
            continue;
        }

        (void) snprintf(path, sizeof(path), "%s/%s/%s", RECORDINGS, dialect,
                        entry->d_name);
        recording_read(path, &text);
        each(entry->d_name, chat_buf_str(&text));
        n++;
    }

    if (dir != NULL) {
        closedir(dir);
    }

    chat_buf_free(&text);
    return n;
}


/* The same; skips the test if the folder is absent or empty. */
static inline void
recordings_all(const char *dialect,
               void (*each)(const char *name, chat_str_t text))
{
    if (recordings_each(dialect, each) == 0) {
        print_message("no recordings in %s/%s\n", RECORDINGS, dialect);
        skip();
    }
}


#endif /* RECORDINGS_H */
