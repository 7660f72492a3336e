// A queue with one server, random arrivals and a fixed time of service (M/D/1) in ns-3, timed by the CPU time that it takes: the other
// side of crates/sim/examples/queue.rs. See lab/ns3-queue.sh.
//
//   ns3-queue SCHEDULER SOURCES UTILISATION_PCT SECONDS SEED
#include <ns3/core-module.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr int64_t SERVICE_NS = 10'000;

// Of the cheapest that there are, so that what is timed is the agenda.
struct Random {
    uint64_t state;

    double Exponential(double mean) {
        state += 0x9e3779b97f4a7c15;
        uint64_t mixed = state;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
        mixed ^= mixed >> 31;
        return -std::log((double(mixed >> 11) + 1.0) * 0x1p-53) * mean;
    }
};

struct Source {
    int64_t dueNs;
    int64_t sentNs;
};

class Queue {
  public:
    Queue(uint32_t sources, uint64_t ratePerSecond, uint64_t seed)
        : m_sources(sources), m_meanNs(1e9 * sources / double(ratePerSecond)), m_random{seed} {
        for (uint32_t source = 0; source < sources; ++source) {
            m_sources[source].dueNs = int64_t(m_random.Exponential(m_meanNs));
            ns3::Simulator::Schedule(ns3::NanoSeconds(m_sources[source].dueNs), &Queue::Arrive, this, source);
        }
    }

    uint64_t answers = 0;
    uint64_t events = 0;
    int64_t sumNs = 0;

  private:
    void Arrive(uint32_t source) {
        ++events;
        m_sources[source].sentNs = ns3::Simulator::Now().GetNanoSeconds();
        m_waiting.push_back(source);
        if (m_waiting.size() == 1) {
            ns3::Simulator::Schedule(ns3::NanoSeconds(SERVICE_NS), &Queue::Depart, this);
        }
    }

    void Depart() {
        ++events;
        const int64_t nowNs = ns3::Simulator::Now().GetNanoSeconds();
        const uint32_t source = m_waiting.front();
        m_waiting.pop_front();
        Source& from = m_sources[source];
        ++answers;
        sumNs += nowNs - from.sentNs;
        from.dueNs += int64_t(m_random.Exponential(m_meanNs));
        const int64_t nextNs = from.dueNs > nowNs ? from.dueNs : nowNs;
        ns3::Simulator::Schedule(ns3::NanoSeconds(nextNs - nowNs), &Queue::Arrive, this, source);
        if (!m_waiting.empty()) {
            ns3::Simulator::Schedule(ns3::NanoSeconds(SERVICE_NS), &Queue::Depart, this);
        }
    }

    std::vector<Source> m_sources;
    double m_meanNs;
    Random m_random;
    std::deque<uint32_t> m_waiting;
};

// CPU time of this thread. Source: Documentation/scheduler/sched-stats.rst.
double CpuSeconds() {
    uint64_t ns = 0;
    std::ifstream("/proc/thread-self/schedstat") >> ns;
    return double(ns) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        std::fprintf(stderr, "usage: ns3-queue SCHEDULER SOURCES UTILISATION_PCT SECONDS SEED\n");
        return 2;
    }
    const uint64_t utilisationPct = std::strtoull(argv[3], nullptr, 10);
    ns3::ObjectFactory scheduler;
    scheduler.SetTypeId(std::string("ns3::") + argv[1]);
    ns3::Simulator::SetScheduler(scheduler);
    const double begun = CpuSeconds();
    Queue queue(uint32_t(std::strtoul(argv[2], nullptr, 10)), 1'000'000'000 / SERVICE_NS * utilisationPct / 100,
                std::strtoull(argv[5], nullptr, 10));
    ns3::Simulator::Stop(ns3::Seconds(std::strtod(argv[4], nullptr)));
    ns3::Simulator::Run();
    const double cpu = CpuSeconds() - begun;
    std::printf("events %llu answers %llu mean_us %.3f cpu_s %.4f\n", (unsigned long long)queue.events, (unsigned long long)queue.answers,
                double(queue.sumNs) / double(queue.answers) / 1000.0, cpu);
    ns3::Simulator::Destroy();
    return 0;
}
