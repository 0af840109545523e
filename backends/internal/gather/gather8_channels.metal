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

struct _32
{
    int _m0;
    int _m1;
    int _m2;
    uint _m3;
};

struct _77
{
    uint2 _m0[1];
};

struct _90
{
    uint2 _m0[1];
};

struct _111
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

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

static inline __attribute__((always_inline))
_32 _37(thread const int& _34, thread const int& _35, thread const int& _36, constant _111& v_113)
{
    bool _99 = _34 == 1;
    int _104;
    if (_99)
    {
        _104 = int(v_113._m6[1]);
    }
    else
    {
        _104 = 1;
    }
    int _122;
    if (_99)
    {
        _122 = _36;
    }
    else
    {
        _122 = _36 * int(v_113._m6[1]);
    }
    uint _135;
    if (_99)
    {
        _135 = v_113._m3;
    }
    else
    {
        _135 = 31u;
    }
    return _32{ _104, _122, _35, _135 };
}

static inline __attribute__((always_inline))
int _45(thread const _32& _42, thread const uint& _43, thread int& _44)
{
    int _147 = int(_43 >> _42._m3);
    int _153 = int(_43 & ((1u << _42._m3) - 1u)) * 1;
    int _166;
    if (_147 < _42._m0)
    {
        _166 = _42._m1 - _153;
    }
    else
    {
        _166 = 0;
    }
    _44 = _166;
    return (_147 * _42._m2) + _153;
}

static inline __attribute__((always_inline))
uint2 _25(thread const int& _24, const device _77& v_79)
{
    return uint2(v_79._m0[_24]);
}

static inline __attribute__((always_inline))
uint2 _13(thread const spvUnsafeArray<uint2, 1>& _12)
{
    return _12[0];
}

static inline __attribute__((always_inline))
void _53(thread const int& _50, thread const _32& _51, thread const bool& _52, const device _77& v_79, thread uint3& gl_LocalInvocationID, threadgroup uint2 (&v_261)[1056])
{
    int _213;
    uint2 _225;
    spvUnsafeArray<uint2, 1> _242;
    for (int _184 = 0; _184 < 4; _184++)
    {
        uint _193 = gl_LocalInvocationID.x + (uint(_184) * 256u);
        _32 _209 = _51;
        uint _211 = _193;
        int _214 = _45(_209, _211, _213);
        int _208 = _213;
        int _206 = _50 + _214;
        if (_208 <= 0)
        {
            continue;
        }
        if (_52)
        {
            _225 = uint2(v_79._m0[_206 / 1]);
        }
        else
        {
            for (int _234 = 0; _234 < 1; _234++)
            {
                int _250 = _206 + min(_234, (_208 - 1));
                _242[_234] = _25(_250, v_79);
            }
            spvUnsafeArray<uint2, 1> _255;
            _255 = _242;
            _225 = _13(_255);
        }
        v_261[_193 + (_193 / 32u)] = _225;
    }
}

static inline __attribute__((always_inline))
uint2 _21(thread const uint2& _19, thread const int& _20)
{
    return _19;
}

static inline __attribute__((always_inline))
void _30(thread const int& _28, thread const uint2& _29, device _90& v_92)
{
    v_92._m0[_28] = uint2(_29);
}

static inline __attribute__((always_inline))
void _61(thread const int& _56, thread const _32& _57, thread const uint& _58, thread const uint& _59, thread const bool& _60, device _90& v_92, thread uint3& gl_LocalInvocationID, threadgroup uint2 (&v_261)[1056])
{
    int _294;
    spvUnsafeArray<uint2, 1> _341;
    for (int _272 = 0; _272 < 4; _272++)
    {
        uint _280 = gl_LocalInvocationID.x + (uint(_272) * 256u);
        _32 _290 = _57;
        uint _292 = _280;
        int _295 = _45(_290, _292, _294);
        int _289 = _294;
        int _287 = _56 + _295;
        if (_289 <= 0)
        {
            continue;
        }
        uint _303 = (_280 & ((1u << _57._m3) - 1u)) * 1u;
        uint _311 = _303 / _58;
        uint _315 = _303 % _58;
        for (int _319 = 0; _319 < 1; _319++)
        {
            uint _327 = ((_280 >> _57._m3) + _311) + (_315 * _59);
            uint _338 = _327 / 1u;
            uint2 _350 = v_261[_338 + (_338 / 32u)];
            int _353 = int(_327 % 1u);
            _341[_319] = _21(_350, _353);
            uint _357 = _315;
            uint _358 = _357 + uint(1);
            _315 = _358;
            bool _356 = _358 == _58;
            _311 += uint(_356);
            _315 = _356 ? 0u : _315;
        }
        if (_60)
        {
            spvUnsafeArray<uint2, 1> _375;
            _375 = _341;
            v_92._m0[_287 / 1] = _13(_375);
            continue;
        }
        for (int _380 = 0; _380 < min(1, _289); _380++)
        {
            int _394 = _287 + _380;
            uint2 _395 = _341[_380];
            _30(_394, _395, v_92);
        }
    }
}

static inline __attribute__((always_inline))
void _66(thread const int& _64, thread const int& _65, const device _77& v_79, device _90& v_92, constant _111& v_113, thread uint3& gl_LocalInvocationID, threadgroup uint2 (&v_261)[1056], thread uint3& gl_WorkGroupID, thread uint3& gl_NumWorkGroups)
{
    uint _403 = 1u << v_113._m3;
    uint _413;
    if (v_113._m7[0] == 1)
    {
        _413 = 4294967295u;
    }
    else
    {
        _413 = v_113._m6[1];
    }
    uint _407 = _413;
    uint _425;
    if (v_113._m7[0] == 1)
    {
        _425 = v_113._m6[1];
    }
    else
    {
        _425 = _403;
    }
    uint _421 = _425;
    uint _438 = gl_WorkGroupID.x * _403;
    for (uint _433 = _438; _433 < v_113._m6[0]; _433 += (gl_NumWorkGroups.x * _403))
    {
        int _448 = int(min(_403, (v_113._m6[0] - _433)));
        int _456 = _64 + (int(_433) * v_113._m7[0]);
        int _464 = _65 + (int(_433) * v_113._m8[0]);
        int _474 = v_113._m8[0];
        int _477 = v_113._m8[1];
        int _480 = _448;
        _32 _473 = _37(_474, _477, _480, v_113);
        int _484 = v_113._m7[0];
        int _487 = v_113._m7[1];
        int _490 = _448;
        _32 _483 = _37(_484, _487, _490, v_113);
        bool _501;
        if (false)
        {
            _501 = v_113._m5 != 0u;
        }
        else
        {
            _501 = false;
        }
        bool _507;
        if (_501)
        {
            _507 = (_448 % 1) == 0;
        }
        else
        {
            _507 = _501;
        }
        bool _493 = _507;
        if (_493)
        {
            int _512 = _464;
            _32 _514 = _473;
            bool _516 = true;
            _53(_512, _514, _516, v_79, gl_LocalInvocationID, v_261);
        }
        else
        {
            int _519 = _464;
            _32 _521 = _473;
            bool _523 = false;
            _53(_519, _521, _523, v_79, gl_LocalInvocationID, v_261);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (_493)
        {
            int _530 = _456;
            _32 _532 = _483;
            uint _534 = _407;
            uint _536 = _421;
            bool _538 = true;
            _61(_530, _532, _534, _536, _538, v_92, gl_LocalInvocationID, v_261);
        }
        else
        {
            int _541 = _456;
            _32 _543 = _483;
            uint _545 = _407;
            uint _547 = _421;
            bool _549 = false;
            _61(_541, _543, _545, _547, _549, v_92, gl_LocalInvocationID, v_261);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
}

kernel void gather8_channels(device _90& v_92 [[buffer(0)]], constant _111& v_113 [[buffer(2)]], const device _77& v_79 [[buffer(1)]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    threadgroup uint2 v_261[1056];
    for (uint _558 = gl_WorkGroupID.z; _558 < v_113._m2; _558 += gl_NumWorkGroups.z)
    {
        int _570 = v_113._m0;
        int _573 = v_113._m1;
        uint _576 = _558;
        for (int _578 = 2; (_578 < 8) && (_576 != 0u); _578++)
        {
            int _589 = int(_576 % v_113._m6[_578]);
            _576 /= v_113._m6[_578];
            _570 += (_589 * v_113._m7[_578]);
            _573 += (_589 * v_113._m8[_578]);
        }
        int _617 = _570;
        int _619 = _573;
        _66(_617, _619, v_79, v_92, v_113, gl_LocalInvocationID, v_261, gl_WorkGroupID, gl_NumWorkGroups);
    }
}

