/* The vector cases: small questions with one right answer each, asked as JSON. */

#ifndef CASES_H
#define CASES_H

#include "arena.h"
#include "files.h"
#include "trace.h"

/* Answer every case of `vectors` whose operation is known with one SAMPLE record; `folder` holds the given weights. */
void answer_cases(struct arena *arena, struct trace *trace, struct bytes vectors, const char *folder);

#endif
