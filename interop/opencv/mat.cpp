#include "mat.h"

#include <opencv2/core.hpp>

void dlxcv_describe(void *mat, struct dlxcv_mat *d) {
	const cv::Mat &m = *static_cast<const cv::Mat *>(mat);
	*d = dlxcv_mat();
	d->rank = m.dims;
	d->depth = m.depth();
	d->channels = m.channels();
	d->counted = m.u != nullptr;
	d->data = reinterpret_cast<uintptr_t>(m.data);
	d->end = reinterpret_cast<uintptr_t>(m.datalimit);
	for (int i = 0; i < m.dims && i < dlxcv_rank; i++) {
		d->shape[i] = m.size[i];
		d->steps[i] = m.step[i];
	}
}

void *dlxcv_share(void *mat) {
	try {
		return new cv::Mat(*static_cast<const cv::Mat *>(mat));
	} catch (...) {
		return nullptr;
	}
}

void dlxcv_free(void *mat) { delete static_cast<cv::Mat *>(mat); }

namespace {

// The fields of DLPack's DLManagedTensorVersioned up to its deleter. Every version of DLPack from 1.0 on has them.
struct managed_tensor {
	uint32_t major, minor;
	void *context;
	void (*deleter)(managed_tensor *);
};

// lender frees memory of tensors. A matrix that gets other memory gets it from OpenCV's own allocator.
class lender : public cv::MatAllocator {
public:
	cv::UMatData *allocate(int dims, const int *sizes, int type, void *data, size_t *step, cv::AccessFlag flags, cv::UMatUsageFlags usage) const override {
		return cv::Mat::getStdAllocator()->allocate(dims, sizes, type, data, step, flags, usage);
	}
	bool allocate(cv::UMatData *data, cv::AccessFlag access, cv::UMatUsageFlags usage) const override {
		return cv::Mat::getStdAllocator()->allocate(data, access, usage);
	}
	void deallocate(cv::UMatData *u) const override {
		managed_tensor *m = static_cast<managed_tensor *>(u->userdata);
		delete u;
		if (m->deleter)
			m->deleter(m);
	}
};

// It is never deleted: matrices may outlive the end of main.
lender &the_lender() {
	static lender *one = new lender;
	return *one;
}

} // namespace

int dlxcv_lend(void *mat, int rank, const int *shape, const size_t *steps, int depth, int channels, uintptr_t data, void *managed) {
	try {
		cv::Mat m(rank, shape, CV_MAKETYPE(depth, channels), reinterpret_cast<void *>(data), steps);
		cv::UMatData *u = new cv::UMatData(&the_lender());
		u->data = u->origdata = m.data;
		u->size = static_cast<size_t>(m.datalimit - m.datastart);
		u->userdata = managed;
		u->refcount = 1;
		m.u = u;
		m.allocator = &the_lender();
		*static_cast<cv::Mat *>(mat) = std::move(m);
		return 1;
	} catch (...) {
		return 0; // before m had u
	}
}
