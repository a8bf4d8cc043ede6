// Scenarios that need a process of their own: ascendcl_scenarios <name> [arguments]. Each prints what it saw; the tests
// compare. A scenario that is not known exits with 2.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "ascendcl/log.h"

namespace {

using Arguments = std::vector<std::string>;

void print(const char* what, long long value) {
    std::printf("%s %lld\n", what, value);
}

void print_errors() {
    const char* const text = aclGetRecentErrMsg();
    std::printf("text %s\n", text == nullptr ? "(none)" : text);
}

// "i" aclInit(nullptr), "i=<file>", "f" aclFinalize, "r" aclFinalizeReference, "R" the same with a null pointer.
void run_initialisations(const Arguments& steps) {
    for (const std::string& step : steps) {
        if (step == "i") {
            print("init", aclInit(nullptr));
        } else if (step.rfind("i=", 0) == 0) {
            print("init", aclInit(step.c_str() + 2));
        } else if (step == "f") {
            print("finalize", aclFinalize());
        } else if (step == "r") {
            uint64_t left = 77;
            const aclError code = aclFinalizeReference(&left);
            std::printf("reference %d %llu\n", code, static_cast<unsigned long long>(left));
        } else if (step == "R") {
            print("reference", aclFinalizeReference(nullptr));
        } else if (step == "text") {
            print_errors();
        }
    }
}

void show_devices(const Arguments&) {
    uint32_t count = 77;
    print("code", aclrtGetDeviceCount(&count));
    print("count", count);
    for (int id = -1; id <= static_cast<int>(count); ++id) {
        std::printf("set %d %d\n", id, aclrtSetDevice(id));
        const char* const text = aclGetRecentErrMsg();
        if (text != nullptr) std::printf("text %s\n", text);
    }
    int32_t peer = 77;
    if (count > 1) {
        print("peer", aclrtDeviceCanAccessPeer(&peer, 0, 1));
        print("can", peer);
    }
}

// Two devices with their own default contexts and streams, one memory, and a context that brings its device along.
void use_two_devices(const Arguments&) {
    aclrtContext first = nullptr;
    aclrtContext second = nullptr;
    aclrtStream first_stream = nullptr;
    aclrtStream second_stream = nullptr;
    int32_t device = 77;
    print("set", aclrtSetDevice(0));
    aclrtGetCurrentContext(&first);
    aclrtCtxGetCurrentDefaultStream(&first_stream);
    print("set", aclrtSetDevice(1));
    aclrtGetCurrentContext(&second);
    aclrtCtxGetCurrentDefaultStream(&second_stream);
    print("distinct", first != second && first_stream != second_stream);
    void* block = nullptr;
    print("malloc", aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    aclrtPtrAttributes attributes;
    print("attributes", aclrtPointerGetAttributes(block, &attributes));
    print("block device", attributes.location.id);
    print("set context", aclrtSetCurrentContext(first));
    aclrtGetDevice(&device);
    print("device", device);
    print("memset on the other device", aclrtMemset(block, 64, 1, 64));
    print("free", aclrtFree(block));
    print("reset", aclrtResetDevice(1));
    print("context of 1", aclrtSetCurrentContext(second));
    print("context of 0", aclrtSetCurrentContext(first));
    print("enable peer", aclrtDeviceEnablePeerAccess(1, 0));
}

void show_soc_name(const Arguments&) {
    std::printf("soc %s\n", aclrtGetSocName());
}

// The cores of a device; with "pinned" the process may use one processor only.
void show_cores(const Arguments& arguments) {
    if (arguments == Arguments{"pinned"}) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        print("pinned", sched_setaffinity(0, sizeof(one), &one));
    }
    int64_t cores = 77;
    print("code", aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &cores));
    print("cores", cores);
    print("code", aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &cores));
    print("vector cores", cores);
}

// One failure, one probe, one warning twice, one success.
void log_something(const Arguments&) {
    aclrtFree(nullptr);
    int32_t device = 0;
    aclrtGetDevice(&device);
    ascendcl::warn_once("kind", "a warning");
    ascendcl::warn_once("kind", "a warning");
    ascendcl::warn_once("other kind", "another warning");
    void* block = nullptr;
    aclrtMalloc(&block, 64, ACL_MEM_MALLOC_NORMAL_ONLY);
    std::printf("block %p\n", block);
    aclInit("no such file");
    aclrtFree(block);
    aclGetRecentErrMsg();
}

// A failure on another thread, then the main thread looks; before that, its own success.
void show_error_scope(const Arguments& arguments) {
    print("init", aclInit(arguments.empty() ? nullptr : arguments[0].c_str()));
    std::thread([] { aclrtFree(nullptr); }).join();
    uint32_t count = 0;
    aclrtGetDeviceCount(&count);
    print_errors();
    print_errors();
    aclrtFree(nullptr);
    aclrtGetDeviceCount(&count);
    print_errors();
}

// Ends without aclFinalize while a thread is still inside a callback, with everything alive.
void exit_while_working(const Arguments&) {
    aclInit(nullptr);
    aclrtSetDevice(0);
    static aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    void* block = nullptr;
    aclrtCreateStream(&stream);
    aclrtCreateEvent(&event);
    aclrtMalloc(&block, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
    static std::atomic<bool> inside{false};
    std::thread([] {
        const auto stay = [](void*) {
            inside = true;
            for (;;) usleep(1000);
        };
        aclrtLaunchHostFunc(stream, stay, nullptr);
    }).detach();
    while (!inside) usleep(100);
    print("query", aclrtRecordEvent(event, nullptr));
}

// Calls from a static destructor, after the main thread's own thread_local objects are gone.
struct LateUser {
    void* block = nullptr;
    bool active = false;
    ~LateUser() {
        if (!active) return;
        print("late free", aclrtFree(block));
        print("late free", aclrtFree(block));
        print_errors();
        print("late set", aclrtSetDevice(0));
        void* other = nullptr;
        print("late malloc", aclrtMalloc(&other, 10, ACL_MEM_MALLOC_HUGE_FIRST));
        print("late free", aclrtFree(other));
        std::fflush(stdout);
    }
};
LateUser late_user;

void use_after_the_end(const Arguments&) {
    print("init", aclInit(nullptr));
    print("set", aclrtSetDevice(0));
    print("malloc", aclrtMalloc(&late_user.block, 1000, ACL_MEM_MALLOC_HUGE_FIRST));
    void* block = nullptr;
    aclrtMalloc(&block, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    print("reset", aclrtResetDevice(0));
    print("finalize", aclFinalize());
    print("free", aclrtFree(block));
    print("destroy", aclrtDestroyStreamForce(stream));
    late_user.active = true;
}

// A thread whose thread_local object fails a call in its destructor.
struct ThreadUser {
    ~ThreadUser() {
        print("thread free", aclrtFree(nullptr));
        print_errors();
    }
};

void use_at_thread_end(const Arguments&) {
    for (int i = 0; i < 3; ++i) {
        std::thread([] {
            thread_local ThreadUser user;
            static_cast<void>(user);
            aclrtFree(nullptr);
        }).join();
    }
}

// What is left alive at the end is not a leak, and is counted in the log.
void leave_things_alive(const Arguments&) {
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);
    aclrtEvent event = nullptr;
    aclrtCreateEvent(&event);
    void* block = nullptr;
    aclrtMallocAlign32(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclFinalize();
}

}  // namespace

int main(int count, char** values) {
    static const std::map<std::string, std::function<void(const Arguments&)>> scenarios = {
        {"initialisations", run_initialisations},
        {"devices", show_devices},
        {"two_devices", use_two_devices},
        {"soc_name", show_soc_name},
        {"cores", show_cores},
        {"log", log_something},
        {"error_scope", show_error_scope},
        {"exit_while_working", exit_while_working},
        {"use_after_the_end", use_after_the_end},
        {"use_at_thread_end", use_at_thread_end},
        {"leave_things_alive", leave_things_alive},
    };
    const auto found = count > 1 ? scenarios.find(values[1]) : scenarios.end();
    if (found == scenarios.end()) return 2;
    found->second(Arguments(values + 2, values + count));
    std::fflush(stdout);
    return 0;
}
