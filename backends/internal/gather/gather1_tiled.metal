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

struct _105
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

struct _140
{
    uchar _m0[1];
};

struct _151
{
    uchar _m0[1];
};

struct _215
{
    uint _m0[1];
};

struct _392
{
    uint _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

static inline __attribute__((always_inline))
int _26(thread const int& _23, thread const uint& _24, thread const uint& _25, constant _105& v_107)
{
    return (_23 + (int(_24) * v_107._m8[0])) + (int(_25) * v_107._m8[1]);
}

static inline __attribute__((always_inline))
uint _35(thread const int& _34, const device _140& v_142)
{
    return uint(v_142._m0[_34]);
}

static inline __attribute__((always_inline))
uint _12(thread const spvUnsafeArray<uint, 4>& _11)
{
    uint _62 = 0u;
    for (int _64 = 0; _64 < 4; _64++)
    {
        _62 |= (_11[_64] << (uint(_64) * 8u));
    }
    return _62;
}

static inline __attribute__((always_inline))
uint _20(thread const uint& _18, thread const int& _19)
{
    return (_18 >> (uint(_19) * 8u)) & 255u;
}

static inline __attribute__((always_inline))
void _49(thread const int& _45, thread const uint& _46, thread const uint& _47, thread const bool& _48, constant _105& v_107, const device _140& v_142, thread uint3& gl_LocalInvocationID, const device _215& v_217, threadgroup uint (&v_320)[4][16][34])
{
    uint _158 = gl_LocalInvocationID.x / 32u;
    uint _167 = gl_LocalInvocationID.x % 32u;
    spvUnsafeArray<spvUnsafeArray<uint, 4>, 2> _211;
    spvUnsafeArray<uint, 4> _239;
    for (int _171 = 0; _171 < 2; _171++)
    {
        for (int _180 = 0; _180 < 4; _180++)
        {
            uint _188 = (_46 + ((_158 + (uint(_171) * 8u)) * 4u)) + uint(_180);
            uint _200 = _47 + (_167 * 4u);
            if (_48)
            {
                int _218 = _45;
                uint _220 = _188;
                uint _222 = _200;
                _211[_171][_180] = v_217._m0[_26(_218, _220, _222, v_107) / 4];
                continue;
            }
            for (int _231 = 0; _231 < 4; _231++)
            {
                int _257 = _45;
                uint _259 = min(_188, (v_107._m6[0] - 1u));
                uint _260 = min((_200 + uint(_231)), (v_107._m6[1] - 1u));
                int _262 = _26(_257, _259, _260, v_107);
                _239[_231] = _35(_262, v_142);
            }
            spvUnsafeArray<uint, 4> _269;
            _269 = _239;
            _211[_171][_180] = _12(_269);
        }
    }
    spvUnsafeArray<uint, 4> _301;
    for (int _277 = 0; _277 < 2; _277++)
    {
        for (int _285 = 0; _285 < 4; _285++)
        {
            for (int _293 = 0; _293 < 4; _293++)
            {
                uint _305 = _211[_277][_293];
                int _308 = _285;
                _301[_293] = _20(_305, _308);
            }
            spvUnsafeArray<uint, 4> _328;
            _328 = _301;
            v_320[_285][_158 + (uint(_277) * 8u)][_167] = _12(_328);
        }
    }
}

static inline __attribute__((always_inline))
int _31(thread const int& _28, thread const uint& _29, thread const uint& _30, constant _105& v_107)
{
    return (_28 + (int(_29) * v_107._m7[0])) + (int(_30) * v_107._m7[1]);
}

static inline __attribute__((always_inline))
void _40(thread const int& _38, thread const uint& _39, device _151& v_153)
{
    v_153._m0[_38] = uchar(_39);
}

static inline __attribute__((always_inline))
void _55(thread const int& _51, thread const uint& _52, thread const uint& _53, thread const bool& _54, constant _105& v_107, device _151& v_153, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_320)[4][16][34], device _392& v_394)
{
    uint _337 = gl_LocalInvocationID.x % 16u;
    uint _341 = gl_LocalInvocationID.x / 16u;
    for (int _345 = 0; _345 < 2; _345++)
    {
        for (int _353 = 0; _353 < 4; _353++)
        {
            uint _361 = _52 + (_337 * 4u);
            uint _366 = (_53 + ((_341 + (uint(_345) * 16u)) * 4u)) + uint(_353);
            uint _378 = v_320[_353][_337][_341 + (uint(_345) * 16u)];
            if (_54)
            {
                int _395 = _51;
                uint _397 = _361;
                uint _399 = _366;
                v_394._m0[_31(_395, _397, _399, v_107) / 4] = _378;
                continue;
            }
            for (int _406 = 0; _406 < 4; _406++)
            {
                bool _420 = (_361 + uint(_406)) < v_107._m6[0];
                bool _427;
                if (_420)
                {
                    _427 = _366 < v_107._m6[1];
                }
                else
                {
                    _427 = _420;
                }
                if (_427)
                {
                    int _434 = _51;
                    uint _436 = _361 + uint(_406);
                    uint _437 = _366;
                    uint _440 = _378;
                    int _442 = _406;
                    int _445 = _31(_434, _436, _437, v_107);
                    uint _446 = _20(_440, _442);
                    _40(_445, _446, v_153);
                }
            }
        }
    }
}

static inline __attribute__((always_inline))
void _60(thread const int& _58, thread const int& _59, constant _105& v_107, const device _140& v_142, device _151& v_153, thread uint3& gl_LocalInvocationID, const device _215& v_217, threadgroup uint (&v_320)[4][16][34], device _392& v_394, thread uint3& gl_WorkGroupID, thread uint3& gl_NumWorkGroups)
{
    uint _459 = gl_WorkGroupID.y * 128u;
    for (uint _454 = _459; _454 < v_107._m6[1]; _454 += (gl_NumWorkGroups.y * 128u))
    {
        uint _473 = gl_WorkGroupID.x * 64u;
        for (uint _469 = _473; _469 < v_107._m6[0]; _469 += (gl_NumWorkGroups.x * 64u))
        {
            bool _491;
            if (true)
            {
                _491 = v_107._m5 != 0u;
            }
            else
            {
                _491 = true;
            }
            bool _499;
            if (_491)
            {
                _499 = (_469 + 64u) <= v_107._m6[0];
            }
            else
            {
                _499 = _491;
            }
            bool _507;
            if (_499)
            {
                _507 = (_454 + 128u) <= v_107._m6[1];
            }
            else
            {
                _507 = _499;
            }
            bool _483 = _507;
            if (_483)
            {
                int _511 = _59;
                uint _513 = _469;
                uint _515 = _454;
                bool _517 = true;
                _49(_511, _513, _515, _517, v_107, v_142, gl_LocalInvocationID, v_217, v_320);
            }
            else
            {
                int _521 = _59;
                uint _523 = _469;
                uint _525 = _454;
                bool _527 = false;
                _49(_521, _523, _525, _527, v_107, v_142, gl_LocalInvocationID, v_217, v_320);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (_483)
            {
                int _533 = _58;
                uint _535 = _469;
                uint _537 = _454;
                bool _539 = true;
                _55(_533, _535, _537, _539, v_107, v_153, gl_LocalInvocationID, v_320, v_394);
            }
            else
            {
                int _542 = _58;
                uint _544 = _469;
                uint _546 = _454;
                bool _548 = false;
                _55(_542, _544, _546, _548, v_107, v_153, gl_LocalInvocationID, v_320, v_394);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
}

kernel void gather1_tiled(constant _105& v_107 [[buffer(2)]], device void* spvBufferAliasSet0Binding0 [[buffer(0)]], const device void* spvBufferAliasSet0Binding1 [[buffer(1)]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    device auto& v_153 = *(device _151*)spvBufferAliasSet0Binding0;
    const device auto& v_142 = *(const device _140*)spvBufferAliasSet0Binding1;
    const device auto& v_217 = *(const device _215*)spvBufferAliasSet0Binding1;
    device auto& v_394 = *(device _392*)spvBufferAliasSet0Binding0;
    threadgroup uint v_320[4][16][34];
    for (uint _561 = gl_WorkGroupID.z; _561 < v_107._m2; _561 += gl_NumWorkGroups.z)
    {
        int _573 = v_107._m0;
        int _576 = v_107._m1;
        uint _579 = _561;
        for (int _581 = 2; (_581 < 8) && (_579 != 0u); _581++)
        {
            int _592 = int(_579 % v_107._m6[_581]);
            _579 /= v_107._m6[_581];
            _573 += (_592 * v_107._m7[_581]);
            _576 += (_592 * v_107._m8[_581]);
        }
        int _620 = _573;
        int _622 = _576;
        _60(_620, _622, v_107, v_142, v_153, gl_LocalInvocationID, v_217, v_320, v_394, gl_WorkGroupID, gl_NumWorkGroups);
    }
}

