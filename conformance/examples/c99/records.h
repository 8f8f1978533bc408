/* The records of the suite course.ngram. */

#ifndef RECORDS_H
#define RECORDS_H

#include "experiment.h"
#include "trace.h"

/* Which conventions the program follows; it stands before any number. */
void write_conventions(struct trace *trace);

/* The records of a finished experiment; `replays` tells whether a second run from scratch gave the same bits. */
void write_experiment(struct trace *trace, const struct prepared *data, const struct outcome *outcome, int replays);

#endif
