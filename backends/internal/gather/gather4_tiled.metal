#pragma clang diagnostic ignored "-Wmissing-prototypes"
#pragma clang diagnostic ignored "-Wmissing-braces"

#include <metal_stdlib>
#include <simd/simd.h>

using namespace metal;

template<typename T, size_t Num>
struct spvUnsafeArray
{
    T elements[Num ? Num : 1];
    
    thread T& operator [] (size_t pos) thread
    {
        return elements[pos];
    }
    constexpr const thread T& operator [] (size_t pos) const thread
    {
        return elements[pos];
    }
    
    device T& operator [] (size_t pos) device
    {
        return elements[pos];
    }
    constexpr const device T& operator [] (size_t pos) const device
    {
        return elements[pos];
    }
    
    constexpr const constant T& operator [] (size_t pos) const constant
    {
        return elements[pos];
    }
    
    threadgroup T& operator [] (size_t pos) threadgroup
    {
        return elements[pos];
    }
    constexpr const threadgroup T& operator [] (size_t pos) const threadgroup
    {
        return elements[pos];
    }
};

struct _77
{
    int _m0;
    int _m1;
    uint _m2;
    uint _m3;
    uint _m4;
    uint _m5;
    uint _m6[8];
    int _m7[8];
    int _m8[8];
};

struct _112
{
    uint _m0[1];
};

struct _122
{
    uint _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

static inline __attribute__((always_inline))
int _26(thread const int& _23, thread const uint& _24, thread const uint& _25, constant _77& v_79)
{
    return (_23 + (int(_24) * v_79._m8[0])) + (int(_25) * v_79._m8[1]);
}

static inline __attribute__((always_inline))
uint _35(thread const int& _34, const device _112& v_114)
{
    return v_114._m0[_34];
}

static inline __attribute__((always_inline))
uint _12(thread const spvUnsafeArray<uint, 1>& _11)
{
    return _11[0];
}

static inline __attribute__((always_inline))
uint _20(thread const uint& _18, thread const int& _19)
{
    return _18;
}

static inline __attribute__((always_inline))
void _49(thread const int& _45, thread const uint& _46, thread const uint& _47, thread const bool& _48, constant _77& v_79, const device _112& v_114, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_283)[1][64][33])
{
    uint _128 = gl_LocalInvocationID.x / 32u;
    uint _138 = gl_LocalInvocationID.x % 32u;
    spvUnsafeArray<spvUnsafeArray<uint, 1>, 8> _180;
    spvUnsafeArray<uint, 1> _203;
    for (int _142 = 0; _142 < 8; _142++)
    {
        for (int _150 = 0; _150 < 1; _150++)
        {
            uint _158 = (_46 + ((_128 + (uint(_142) * 8u)) * 1u)) + uint(_150);
            uint _170 = _47 + (_138 * 1u);
            if (_48)
            {
                int _183 = _45;
                uint _185 = _158;
                uint _187 = _170;
                _180[_142][_150] = v_114._m0[_26(_183, _185, _187, v_79) / 1];
                continue;
            }
            for (int _195 = 0; _195 < 1; _195++)
            {
                int _220 = _45;
                uint _222 = min(_158, (v_79._m6[0] - 1u));
                uint _223 = min((_170 + uint(_195)), (v_79._m6[1] - 1u));
                int _225 = _26(_220, _222, _223, v_79);
                _203[_195] = _35(_225, v_114);
            }
            spvUnsafeArray<uint, 1> _232;
            _232 = _203;
            _180[_142][_150] = _12(_232);
        }
    }
    spvUnsafeArray<uint, 1> _264;
    for (int _240 = 0; _240 < 8; _240++)
    {
        for (int _248 = 0; _248 < 1; _248++)
        {
            for (int _256 = 0; _256 < 1; _256++)
            {
                uint _268 = _180[_240][_256];
                int _271 = _248;
                _264[_256] = _20(_268, _271);
            }
            spvUnsafeArray<uint, 1> _291;
            _291 = _264;
            v_283[_248][_128 + (uint(_240) * 8u)][_138] = _12(_291);
        }
    }
}

static inline __attribute__((always_inline))
int _31(thread const int& _28, thread const uint& _29, thread const uint& _30, constant _77& v_79)
{
    return (_28 + (int(_29) * v_79._m7[0])) + (int(_30) * v_79._m7[1]);
}

static inline __attribute__((always_inline))
void _40(thread const int& _38, thread const uint& _39, device _122& v_124)
{
    v_124._m0[_38] = _39;
}

static inline __attribute__((always_inline))
void _55(thread const int& _51, thread const uint& _52, thread const uint& _53, thread const bool& _54, constant _77& v_79, device _122& v_124, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_283)[1][64][33])
{
    uint _300 = gl_LocalInvocationID.x % 64u;
    uint _304 = gl_LocalInvocationID.x / 64u;
    for (int _308 = 0; _308 < 8; _308++)
    {
        for (int _316 = 0; _316 < 1; _316++)
        {
            uint _324 = _52 + (_300 * 1u);
            uint _329 = (_53 + ((_304 + (uint(_308) * 4u)) * 1u)) + uint(_316);
            uint _342 = v_283[_316][_300][_304 + (uint(_308) * 4u)];
            if (_54)
            {
                int _355 = _51;
                uint _357 = _324;
                uint _359 = _329;
                v_124._m0[_31(_355, _357, _359, v_79) / 1] = _342;
                continue;
            }
            for (int _366 = 0; _366 < 1; _366++)
            {
                bool _380 = (_324 + uint(_366)) < v_79._m6[0];
                bool _387;
                if (_380)
                {
                    _387 = _329 < v_79._m6[1];
                }
                else
                {
                    _387 = _380;
                }
                if (_387)
                {
                    int _394 = _51;
                    uint _396 = _324 + uint(_366);
                    uint _397 = _329;
                    uint _400 = _342;
                    int _402 = _366;
                    int _405 = _31(_394, _396, _397, v_79);
                    uint _406 = _20(_400, _402);
                    _40(_405, _406, v_124);
                }
            }
        }
    }
}

static inline __attribute__((always_inline))
void _60(thread const int& _58, thread const int& _59, constant _77& v_79, const device _112& v_114, device _122& v_124, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_283)[1][64][33], thread uint3& gl_WorkGroupID, thread uint3& gl_NumWorkGroups)
{
    uint _418 = gl_WorkGroupID.y * 32u;
    for (uint _414 = _418; _414 < v_79._m6[1]; _414 += (gl_NumWorkGroups.y * 32u))
    {
        uint _431 = gl_WorkGroupID.x * 64u;
        for (uint _428 = _431; _428 < v_79._m6[0]; _428 += (gl_NumWorkGroups.x * 64u))
        {
            bool _449;
            if (false)
            {
                _449 = v_79._m5 != 0u;
            }
            else
            {
                _449 = false;
            }
            bool _457;
            if (_449)
            {
                _457 = (_428 + 64u) <= v_79._m6[0];
            }
            else
            {
                _457 = _449;
            }
            bool _465;
            if (_457)
            {
                _465 = (_414 + 32u) <= v_79._m6[1];
            }
            else
            {
                _465 = _457;
            }
            bool _441 = _465;
            if (_441)
            {
                int _470 = _59;
                uint _472 = _428;
                uint _474 = _414;
                bool _476 = true;
                _49(_470, _472, _474, _476, v_79, v_114, gl_LocalInvocationID, v_283);
            }
            else
            {
                int _479 = _59;
                uint _481 = _428;
                uint _483 = _414;
                bool _485 = false;
                _49(_479, _481, _483, _485, v_79, v_114, gl_LocalInvocationID, v_283);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (_441)
            {
                int _492 = _58;
                uint _494 = _428;
                uint _496 = _414;
                bool _498 = true;
                _55(_492, _494, _496, _498, v_79, v_124, gl_LocalInvocationID, v_283);
            }
            else
            {
                int _501 = _58;
                uint _503 = _428;
                uint _505 = _414;
                bool _507 = false;
                _55(_501, _503, _505, _507, v_79, v_124, gl_LocalInvocationID, v_283);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
}

kernel void gather4_tiled(constant _77& v_79 [[buffer(2)]], device _122& v_124 [[buffer(0)]], const device _112& v_114 [[buffer(1)]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    threadgroup uint v_283[1][64][33];
    for (uint _520 = gl_WorkGroupID.z; _520 < v_79._m2; _520 += gl_NumWorkGroups.z)
    {
        int _533 = v_79._m0;
        int _536 = v_79._m1;
        uint _539 = _520;
        for (int _541 = 2; (_541 < 8) && (_539 != 0u); _541++)
        {
            int _552 = int(_539 % v_79._m6[_541]);
            _539 /= v_79._m6[_541];
            _533 += (_552 * v_79._m7[_541]);
            _536 += (_552 * v_79._m8[_541]);
        }
        int _580 = _533;
        int _582 = _536;
        _60(_580, _582, v_79, v_114, v_124, gl_LocalInvocationID, v_283, gl_WorkGroupID, gl_NumWorkGroups);
    }
}

