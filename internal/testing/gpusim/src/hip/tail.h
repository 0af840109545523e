// What comes after a text: a description of its kernels, and what the compiler calls before every access to memory
// (-fsanitize=kernel-address, each by a call).

dlx_hip_state *dlx_hip_now;

struct dlx_hip_argument {
	unsigned size, align, pointer;
};
struct dlx_hip_kernel {
	const char *name;
	void (*run)(void **arguments);
	const dlx_hip_argument *arguments;  // the last one has size 0
};

template <typename T> struct dlx_hip_pointer {
	enum { value = 0 };
};
template <typename T> struct dlx_hip_pointer<T *> {
	enum { value = 1 };
};
template <unsigned... I> struct dlx_hip_list {};
template <unsigned N, unsigned... I> struct dlx_hip_numbers : dlx_hip_numbers<N - 1, N - 1, I...> {};
template <unsigned... I> struct dlx_hip_numbers<0, I...> {
	typedef dlx_hip_list<I...> type;
};
template <typename F> struct dlx_hip_signature;
template <typename... A> struct dlx_hip_signature<void(A...)> {
	static constexpr dlx_hip_argument list[] = {{sizeof(A), alignof(A), dlx_hip_pointer<A>::value}..., {0, 0, 0}};
	template <unsigned... I> static void call(void (*f)(A...), void **a, dlx_hip_list<I...>) { f(*(A *)a[I]...); }
	static void run(void (*f)(A...), void **a) { call(f, a, typename dlx_hip_numbers<sizeof...(A)>::type()); }
};
#define DLX_HIP_KERNEL(name) \
	{#name, [](void **a) { dlx_hip_signature<decltype(name)>::run(name, a); }, dlx_hip_signature<decltype(name)>::list}

struct dlx_hip_table {
	const char *architecture;
	const dlx_hip_kernel *kernels;  // the last one has no name
	char *begin, *end;              // of the code and its variables
	dlx_hip_state **now;
};

extern "C" {
#pragma GCC visibility push(hidden)
extern char __ehdr_start, _end;
#define DLX_HIP_HOOK __attribute__((no_sanitize("kernel-address")))
#define DLX_HIP_ACCESS(bytes)                                                                                       \
	DLX_HIP_HOOK void __asan_load##bytes##_noabort(unsigned long at) { dlx_hip_now->access(at, bytes, 0); }         \
	DLX_HIP_HOOK void __asan_store##bytes##_noabort(unsigned long at) { dlx_hip_now->access(at, bytes, 1); }
DLX_HIP_ACCESS(1)
DLX_HIP_ACCESS(2)
DLX_HIP_ACCESS(4)
DLX_HIP_ACCESS(8)
DLX_HIP_ACCESS(16)
DLX_HIP_HOOK void __asan_loadN_noabort(unsigned long at, unsigned long n) { dlx_hip_now->access(at, n, 0); }
DLX_HIP_HOOK void __asan_storeN_noabort(unsigned long at, unsigned long n) { dlx_hip_now->access(at, n, 1); }
DLX_HIP_HOOK void __asan_handle_no_return(void) {}
#pragma GCC visibility pop
}
