/* JSON, read strictly: UTF-8 without a byte order mark, no key twice, no lone surrogate, bounded depth.

   A value is a tree of nodes in an arena; the members of an object and the items of an array are a linked list. */

#ifndef JSON_H
#define JSON_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_INTEGER, JSON_REAL, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

enum { JSON_MAXIMUM_DEPTH = 64, JSON_MAXIMUM_VALUES = 1 << 20 };

struct json_text {
    const char *data; /* may hold NULs; one more stands behind the last byte */
    size_t length;
};

struct json {
    enum json_kind kind;
    struct json_text key;    /* of a member of an object */
    struct json_text string; /* of a string, escapes resolved */
    uint64_t magnitude;      /* of an integer: its digits, at most 64 bits; what is longer is a real */
    int negative;            /* of an integer: whether a minus stands before them */
    double real;             /* of any number */
    struct json *first;      /* of an array or an object */
    struct json *next;
    size_t count;
};

struct json_problem {
    size_t position; /* the byte */
    char text[64];
};

/* Parse one value with white space around it; data[length] has to be a NUL. On a problem return NULL and say it. */
const struct json *json_parse(struct arena *arena, const char *data, size_t length, struct json_problem *problem);

/* The member of an object, or NULL where there is none or `object` is no object. */
const struct json *json_member(const struct json *object, const char *key);

int json_is(const struct json *value, enum json_kind kind);
int json_text_is(struct json_text text, const char *other);

/* Take a non-negative integer of at most `limit`: return 1, or 0 where `value` is none (or NULL). */
int json_unsigned(const struct json *value, uint64_t limit, uint64_t *result);

/* Take a double spelled as sixteen hexadecimal digits, most significant first. */
int json_bits(const struct json *value, double *result);

/* Take the integer that `count` hexadecimal digits spell; return 0 where one of them is none. */
int json_hexadecimal(const char *digits, int count, uint64_t *value);

#endif
