/* Serving a Llama model: one JSON object a line on standard input, one answer a line on standard output. */

#ifndef SERVE_H
#define SERVE_H

/* Answer until `stop`, or until the input ends. */
void serve(void);

#endif
