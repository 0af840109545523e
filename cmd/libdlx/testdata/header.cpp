// The header in C++17, before and after that of DLPack. The program is a round trip with owners that close.
#ifdef DLPACK_FIRST
#include <dlpack/dlpack.h>

#include "dlx.h"
#else
#include "dlx.h"

#include <dlpack/dlpack.h>
#endif
#include <cstdio>
#include <memory>
#include <stdexcept>

static dlx_error error;

static void check(dlx_status status) {
	if (status != DLX_OK) {
		throw std::runtime_error(error.text);
	}
}

struct Close {
	void operator()(dlx_registry *r) const { dlx_registry_close(r, nullptr); }
	void operator()(dlx_device *d) const { dlx_device_close(d, nullptr); }
	void operator()(dlx_tensor *t) const { dlx_tensor_close(t, nullptr); }
};
template <typename T> using Owned = std::unique_ptr<T, Close>;

static void run() {
	dlx_registry *r = nullptr;
	check(dlx_registry_open(&r, &error));
	Owned<dlx_registry> registry(r);
	dlx_device *d = nullptr;
	check(dlx_device_open(r, "cpu", 0, &d, &error));
	Owned<dlx_device> device(d);
	const int64_t shape[] = {2, 2};
	dlx_tensor_spec spec{};
	spec.dtype = {kDLFloat, 64, 1};
	spec.rank = 2;
	spec.shape = shape;
	dlx_tensor *t = nullptr;
	check(dlx_tensor_alloc(d, &spec, nullptr, 0, &t, &error));
	Owned<dlx_tensor> tensor(t);
	DLManagedTensorVersioned *managed = nullptr;
	check(dlx_tensor_export(t, &managed, &error));
	static_cast<double *>(managed->dl_tensor.data)[3] = 42;
	dlx_tensor *u = nullptr;
	check(dlx_tensor_import(managed, nullptr, &u, &error));
	Owned<dlx_tensor> imported(u);
	dlx_tensor_info info;
	check(dlx_tensor_get_info(u, &info, &error));
	if (static_cast<double *>(info.data)[3] != 42) {
		throw std::runtime_error("the element was lost");
	}
	try {
		check(dlx_device_open(r, "nothing", 0, &d, &error));
		throw std::logic_error("opened nothing");
	} catch (const std::runtime_error &) {
		if (error.status != DLX_ERR_DEVICE) {
			throw;
		}
	}
}

int main() {
	try {
		run();
		int64_t open = -1;
		check(dlx_live(nullptr, &open, &error));
		return open == 0 ? 0 : 1;
	} catch (const std::exception &e) {
		std::fprintf(stderr, "%s\n", e.what());
		return 1;
	}
}
