/*
 * chat_json_scan.h: where a string or a number of JSON ends.
 *
 * Shared by the parser and by what reads frames without it. Both functions
 * take RFC 8259 literally, and read nothing at or behind end.
 */

#ifndef CHAT_JSON_SCAN_H
#define CHAT_JSON_SCAN_H

/* What a string has, by bits. */
#define CHAT_JSON_ESCAPED 1 /* an escape */
#define CHAT_JSON_VARIED 2  /* one that could be written otherwise */

/*
 * Returns the closing quote of a string; its text begins at p. Returns end if
 * the string has no closing quote, NULL if the text has a control character,
 * an invalid escape or an invalid character. Adds to *has.
 */
const unsigned char *chat_json_string_end(const unsigned char *p,
                                          const unsigned char *end,
                                          unsigned            *has);

/* Behind the number at p; NULL: there is none. */
const unsigned char *chat_json_number_end(const unsigned char *p,
                                          const unsigned char *end);

#endif /* CHAT_JSON_SCAN_H */
