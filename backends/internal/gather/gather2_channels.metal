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

struct _31
{
    int _m0;
    int _m1;
    int _m2;
    uint _m3;
};

struct _105
{
    ushort _m0[1];
};

struct _116
{
    ushort _m0[1];
};

struct _134
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

struct _249
{
    uint _m0[1];
};

struct _398
{
    uint _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

static inline __attribute__((always_inline))
_31 _36(thread const int& _33, thread const int& _34, thread const int& _35, constant _134& v_136)
{
    bool _123 = _33 == 1;
    int _127;
    if (_123)
    {
        _127 = int(v_136._m6[1]);
    }
    else
    {
        _127 = 1;
    }
    int _145;
    if (_123)
    {
        _145 = _35;
    }
    else
    {
        _145 = _35 * int(v_136._m6[1]);
    }
    uint _158;
    if (_123)
    {
        _158 = v_136._m3;
    }
    else
    {
        _158 = 31u;
    }
    return _31{ _127, _145, _34, _158 };
}

static inline __attribute__((always_inline))
int _43(thread const _31& _40, thread const uint& _41, thread int& _42)
{
    int _170 = int(_41 >> _40._m3);
    int _176 = int(_41 & ((1u << _40._m3) - 1u)) * 2;
    int _190;
    if (_170 < _40._m0)
    {
        _190 = _40._m1 - _176;
    }
    else
    {
        _190 = 0;
    }
    _42 = _190;
    return (_170 * _40._m2) + _176;
}

static inline __attribute__((always_inline))
uint _24(thread const int& _23, const device _105& v_107)
{
    return uint(v_107._m0[_23]);
}

static inline __attribute__((always_inline))
uint _12(thread const spvUnsafeArray<uint, 2>& _11)
{
    uint _66 = 0u;
    for (int _68 = 0; _68 < 2; _68++)
    {
        _66 |= (_11[_68] << (uint(_68) * 16u));
    }
    return _66;
}

static inline __attribute__((always_inline))
void _51(thread const int& _48, thread const _31& _49, thread const bool& _50, const device _105& v_107, thread uint3& gl_LocalInvocationID, const device _249& v_251, threadgroup uint (&v_285)[2112])
{
    int _235;
    uint _247;
    spvUnsafeArray<uint, 2> _266;
    for (int _207 = 0; _207 < 8; _207++)
    {
        uint _216 = gl_LocalInvocationID.x + (uint(_207) * 256u);
        _31 _231 = _49;
        uint _233 = _216;
        int _236 = _43(_231, _233, _235);
        int _230 = _235;
        int _228 = _48 + _236;
        if (_230 <= 0)
        {
            continue;
        }
        if (_50)
        {
            _247 = v_251._m0[_228 / 2];
        }
        else
        {
            for (int _258 = 0; _258 < 2; _258++)
            {
                int _274 = _228 + min(_258, (_230 - 1));
                _266[_258] = _24(_274, v_107);
            }
            spvUnsafeArray<uint, 2> _279;
            _279 = _266;
            _247 = _12(_279);
        }
        v_285[_216 + (_216 / 32u)] = _247;
    }
}

static inline __attribute__((always_inline))
uint _20(thread const uint& _18, thread const int& _19)
{
    return (_18 >> (uint(_19) * 16u)) & 65535u;
}

static inline __attribute__((always_inline))
void _29(thread const int& _27, thread const uint& _28, device _116& v_118)
{
    v_118._m0[_27] = ushort(_28);
}

static inline __attribute__((always_inline))
void _59(thread const int& _54, thread const _31& _55, thread const uint& _56, thread const uint& _57, thread const bool& _58, device _116& v_118, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_285)[2112], device _398& v_400)
{
    int _318;
    spvUnsafeArray<uint, 2> _365;
    for (int _296 = 0; _296 < 8; _296++)
    {
        uint _304 = gl_LocalInvocationID.x + (uint(_296) * 256u);
        _31 _314 = _55;
        uint _316 = _304;
        int _319 = _43(_314, _316, _318);
        int _313 = _318;
        int _311 = _54 + _319;
        if (_313 <= 0)
        {
            continue;
        }
        uint _327 = (_304 & ((1u << _55._m3) - 1u)) * 2u;
        uint _335 = _327 / _56;
        uint _339 = _327 % _56;
        for (int _343 = 0; _343 < 2; _343++)
        {
            uint _351 = ((_304 >> _55._m3) + _335) + (_339 * _57);
            uint _362 = _351 / 2u;
            uint _374 = v_285[_362 + (_362 / 32u)];
            int _377 = int(_351 % 2u);
            _365[_343] = _20(_374, _377);
            uint _381 = _339;
            uint _382 = _381 + uint(1);
            _339 = _382;
            bool _380 = _382 == _56;
            _335 += uint(_380);
            _339 = _380 ? 0u : _339;
        }
        if (_58)
        {
            spvUnsafeArray<uint, 2> _403;
            _403 = _365;
            v_400._m0[_311 / 2] = _12(_403);
            continue;
        }
        for (int _408 = 0; _408 < min(2, _313); _408++)
        {
            int _422 = _311 + _408;
            uint _423 = _365[_408];
            _29(_422, _423, v_118);
        }
    }
}

static inline __attribute__((always_inline))
void _64(thread const int& _62, thread const int& _63, const device _105& v_107, device _116& v_118, constant _134& v_136, thread uint3& gl_LocalInvocationID, const device _249& v_251, threadgroup uint (&v_285)[2112], device _398& v_400, thread uint3& gl_WorkGroupID, thread uint3& gl_NumWorkGroups)
{
    uint _431 = 2u << v_136._m3;
    uint _441;
    if (v_136._m7[0] == 1)
    {
        _441 = 4294967295u;
    }
    else
    {
        _441 = v_136._m6[1];
    }
    uint _435 = _441;
    uint _453;
    if (v_136._m7[0] == 1)
    {
        _453 = v_136._m6[1];
    }
    else
    {
        _453 = _431;
    }
    uint _449 = _453;
    uint _466 = gl_WorkGroupID.x * _431;
    for (uint _461 = _466; _461 < v_136._m6[0]; _461 += (gl_NumWorkGroups.x * _431))
    {
        int _476 = int(min(_431, (v_136._m6[0] - _461)));
        int _484 = _62 + (int(_461) * v_136._m7[0]);
        int _492 = _63 + (int(_461) * v_136._m8[0]);
        int _501 = v_136._m8[0];
        int _504 = v_136._m8[1];
        int _507 = _476;
        _31 _500 = _36(_501, _504, _507, v_136);
        int _511 = v_136._m7[0];
        int _514 = v_136._m7[1];
        int _517 = _476;
        _31 _510 = _36(_511, _514, _517, v_136);
        bool _528;
        if (true)
        {
            _528 = v_136._m5 != 0u;
        }
        else
        {
            _528 = true;
        }
        bool _534;
        if (_528)
        {
            _534 = (_476 % 2) == 0;
        }
        else
        {
            _534 = _528;
        }
        bool _520 = _534;
        if (_520)
        {
            int _538 = _492;
            _31 _540 = _500;
            bool _542 = true;
            _51(_538, _540, _542, v_107, gl_LocalInvocationID, v_251, v_285);
        }
        else
        {
            int _546 = _492;
            _31 _548 = _500;
            bool _550 = false;
            _51(_546, _548, _550, v_107, gl_LocalInvocationID, v_251, v_285);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (_520)
        {
            int _556 = _484;
            _31 _558 = _510;
            uint _560 = _435;
            uint _562 = _449;
            bool _564 = true;
            _59(_556, _558, _560, _562, _564, v_118, gl_LocalInvocationID, v_285, v_400);
        }
        else
        {
            int _567 = _484;
            _31 _569 = _510;
            uint _571 = _435;
            uint _573 = _449;
            bool _575 = false;
            _59(_567, _569, _571, _573, _575, v_118, gl_LocalInvocationID, v_285, v_400);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
}

kernel void gather2_channels(device void* spvBufferAliasSet0Binding0 [[buffer(0)]], constant _134& v_136 [[buffer(2)]], const device void* spvBufferAliasSet0Binding1 [[buffer(1)]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    device auto& v_118 = *(device _116*)spvBufferAliasSet0Binding0;
    const device auto& v_107 = *(const device _105*)spvBufferAliasSet0Binding1;
    const device auto& v_251 = *(const device _249*)spvBufferAliasSet0Binding1;
    device auto& v_400 = *(device _398*)spvBufferAliasSet0Binding0;
    threadgroup uint v_285[2112];
    for (uint _584 = gl_WorkGroupID.z; _584 < v_136._m2; _584 += gl_NumWorkGroups.z)
    {
        int _596 = v_136._m0;
        int _599 = v_136._m1;
        uint _602 = _584;
        for (int _604 = 2; (_604 < 8) && (_602 != 0u); _604++)
        {
            int _615 = int(_602 % v_136._m6[_604]);
            _602 /= v_136._m6[_604];
            _596 += (_615 * v_136._m7[_604]);
            _599 += (_615 * v_136._m8[_604]);
        }
        int _643 = _596;
        int _645 = _599;
        _64(_643, _645, v_107, v_118, v_136, gl_LocalInvocationID, v_251, v_285, v_400, gl_WorkGroupID, gl_NumWorkGroups);
    }
}

