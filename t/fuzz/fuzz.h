/*
 * fuzz.h: how the fuzz targets check a property.
 *
 * NEED() holds or aborts, in every build, and names the line that an input
 * has broken; the fuzzer keeps that input.
 */

#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#define NEED(ok)                                                         \
    do {                                                                 \
        if (!(ok)) {                                                     \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, \
                    #ok);                                                \
            abort();                                                     \
        }                                                                \
    } while (0)

#endif /* FUZZ_H */
