/* A library whose threads, unknown to Python, tell Lapwing what they do; and the same as a
 * program of its own (-DALONE). work(THREADS, ROUNDS) returns how many threads ran. */

#include <lapwing.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 16 };

static void wait_ms(long ms)
{
    struct timespec time = { 0, ms * 1000000 };

    nanosleep(&time, NULL);
}

static void *run(void *rounds)
{
    char name[16]; /* one address, several names */

    lapwing_step();
    for (int i = 0; i < *(int *)rounds; i++) {
        lapwing_phase_begin("outer");
        lapwing_phase_begin("inner");
        wait_ms(2);
        lapwing_phase_end("inner");
        lapwing_phase_begin("forgotten"); /* ends with what it is in */
        lapwing_phase_end("outer");
        lapwing_phase_end("never begun");
        snprintf(name, sizeof(name), "round %d", i % 2);
        lapwing_mark(name);
        lapwing_counter("rounds", i);
        lapwing_step();
    }
    lapwing_step_end();
    return NULL;
}

int work(int threads, int rounds)
{
    pthread_t started[MOST_THREADS];
    int count = 0;

    while (count < threads && count < MOST_THREADS &&
           pthread_create(&started[count], NULL, run, &rounds) == 0)
        count++;
    for (int i = 0; i < count; i++)
        pthread_join(started[i], NULL);
    return count;
}

/* Nest DEPTH phases; more than there is room for are lost, the others are not. */
void nest(int depth)
{
    for (int i = 0; i < depth; i++)
        lapwing_phase_begin("deep");
    for (int i = 0; i < depth; i++)
        lapwing_phase_end("deep");
}

/* As quickly as can be, until *STOP is set. */
static void *hurry(void *stop)
{
    long *count = stop;

    while (__atomic_load_n(&count[0], __ATOMIC_RELAXED) == 0) {
        lapwing_phase_begin("hurry");
        lapwing_phase_end("hurry");
        lapwing_mark("hurry");
        __atomic_fetch_add(&count[1], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static pthread_t hurrying[MOST_THREADS];
static long stops[MOST_THREADS][16]; /* each on cache lines of its own */

int hurry_begin(int threads)
{
    int count = 0;

    while (count < threads && count < MOST_THREADS) {
        memset(stops[count], 0, sizeof(stops[count]));
        if (pthread_create(&hurrying[count], NULL, hurry, stops[count]) != 0)
            break;
        count++;
    }
    return count;
}

/* How often the laziest of them has been round. */
long hurry_rounds(int threads)
{
    long least = __atomic_load_n(&stops[0][1], __ATOMIC_RELAXED);

    for (int i = 1; i < threads; i++) {
        long rounds = __atomic_load_n(&stops[i][1], __ATOMIC_RELAXED);

        least = rounds < least ? rounds : least;
    }
    return least;
}

void hurry_end(int threads)
{
    for (int i = 0; i < threads; i++) {
        __atomic_store_n(&stops[i][0], 1, __ATOMIC_RELAXED);
        pthread_join(hurrying[i], NULL);
    }
}

#ifdef ALONE
int main(void)
{
    printf("%d threads, recording: %d\n", work(3, 2), lapwing_is_recording());
    return 0;
}
#endif
