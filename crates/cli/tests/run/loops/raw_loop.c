// Asks the kernel for its events without the C library, as Go does.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) { struct epoll_event e; int loop = epoll_create1(0); printf("%d\n", getpid()); fflush(stdout); for (;;) syscall(SYS_epoll_pwait, loop, &e, 1, 100, 0, 8); }
