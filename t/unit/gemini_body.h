/*
 * gemini_body.h: the contents of Gemini request bodies.
 *
 * USER, SAYS, ASKS and BRINGS are contents; CALL and RESULT are parts with an
 * id, PLAIN and ANSWER the same without one.
 */

#ifndef GEMINI_BODY_H
#define GEMINI_BODY_H

#define BODY(contents) "{\"contents\":[" contents "]}"
#define USER "{\"role\":\"user\",\"parts\":[" TEXT "]}"
#define TEXT "{\"text\":\"hi\"}"
#define SAYS "{\"role\":\"model\",\"parts\":[{\"text\":\"ok\"}]}"
#define ASKS(calls) "{\"role\":\"model\",\"parts\":[" calls "]}"
#define CALL(id, name)                                                     \
    "{\"functionCall\":{\"id\":\"" id "\",\"name\":\"" name "\",\"args\":" \
    "{}},\"thoughtSignature\":\"s\"}"
#define PLAIN(name, args) \
    "{\"functionCall\":{\"name\":\"" name "\",\"args\":" args "}}"
#define BRINGS(results) "{\"role\":\"user\",\"parts\":[" results "]}"
#define RESULT(id, name)                                             \
    "{\"functionResponse\":{\"id\":\"" id "\",\"name\":\"" name "\"" \
    ",\"response\":{\"output\":1}}}"
#define ANSWER(name, response)                                                \
    "{\"functionResponse\":{\"name\":\"" name "\",\"response\":" response "}" \
    "}"

#endif /* GEMINI_BODY_H */
