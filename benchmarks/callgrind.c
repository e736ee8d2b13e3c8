/* Client requests to callgrind: instructions between the two calls are counted, and dumped under a name. */

#include <valgrind/callgrind.h>

void start_counting(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void stop_counting(const char *name) {
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
