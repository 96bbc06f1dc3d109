// Sends UDP frames on an interface as fast as it accepts them, or at a rate, until SIGTERM: send-frames IFACE FLOWS RATE(0: full) BYTES Each packet is unique
// (a counter in its payload and IP identification). Prints the number of packets sent.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BURST = 64, MAX_FRAME = 1514 };
static volatile sig_atomic_t ended;
static void end(int signal) { (void)signal; ended = 1; }
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  const uint32_t flows = (uint32_t)atoi(argv[2]);
  const double rate = atof(argv[3]);
  const int bytes = atoi(argv[4]);
  signal(SIGTERM, end);
  int fd = socket(AF_PACKET, SOCK_RAW, 0);
  struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(argv[1])};
  if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof to) != 0) { perror(argv[1]); return 1; }
  int on = 1;
  setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
  static uint8_t frames[BURST][MAX_FRAME];
  struct iovec parts[BURST];
  struct mmsghdr messages[BURST];
  memset(messages, 0, sizeof messages);
  for (int i = 0; i < BURST; i++) {
    uint8_t *f = frames[i];
    memset(f, 2, 12);
    f[12] = 8;
    f[14] = 0x45;
    *(uint16_t *)(f + 16) = htons((uint16_t)(bytes - 14));
    f[22] = 64;
    f[23] = 17;
    *(uint16_t *)(f + 38) = htons((uint16_t)(bytes - 34));
    parts[i] = (struct iovec){f, (size_t)bytes};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  uint64_t sent = 0;
  const double start = now();
  while (!ended) {
    for (int i = 0; i < BURST; i++) {
      uint8_t *f = frames[i];
      const uint64_t n = sent + (uint64_t)i;
      const uint32_t flow = (uint32_t)((n * 2654435761u) >> 7) % flows;
      *(uint16_t *)(f + 18) = htons((uint16_t)n);
      *(uint32_t *)(f + 26) = htonl(0x0a000001 + flow / 50);
      *(uint32_t *)(f + 30) = htonl(0x0a010001);
      *(uint16_t *)(f + 34) = htons((uint16_t)(1024 + flow % 50));
      *(uint16_t *)(f + 36) = htons(9000);
      memcpy(f + 42, &n, sizeof n);
      // Bridges check the header checksum.
      *(uint16_t *)(f + 24) = 0;
      uint32_t sum = 0;
      for (int at = 14; at < 34; at += 2) sum += *(uint16_t *)(f + at);
      sum = (sum & 0xffff) + (sum >> 16);
      *(uint16_t *)(f + 24) = (uint16_t)~(sum + (sum >> 16));
    }
    int did = sendmmsg(fd, messages, BURST, 0);
    if (did > 0) sent += (uint64_t)did;
    while (rate > 0 && !ended && (double)sent > (now() - start) * rate) {
      struct timespec pause = {0, 200000};
      nanosleep(&pause, NULL);
    }
  }
  printf("%llu\n", (unsigned long long)sent);
  return 0;
}
