#include "engine/cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked; /* the signal; 0: none */

static void on_signal(int number)
{
    asked = number;
}

void interrupt_watch(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        struct sigaction before;
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup */
            sigaction(ending[i], &(struct sigaction){.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, NULL);
    }
}

bool interrupt_asked(void)
{
    return asked != 0;
}

void interrupt_end(void)
{
    if (!asked) return;
    signal(asked, SIG_DFL);
    raise(asked);
}
