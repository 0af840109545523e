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

struct _75
{
    uint _m0[1];
};

struct _85
{
    uint _m0[1];
};

struct _103
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
_31 _36(thread const int& _33, thread const int& _34, thread const int& _35, constant _103& v_105)
{
    bool _91 = _33 == 1;
    int _96;
    if (_91)
    {
        _96 = int(v_105._m6[1]);
    }
    else
    {
        _96 = 1;
    }
    int _114;
    if (_91)
    {
        _114 = _35;
    }
    else
    {
        _114 = _35 * int(v_105._m6[1]);
    }
    uint _127;
    if (_91)
    {
        _127 = v_105._m3;
    }
    else
    {
        _127 = 31u;
    }
    return _31{ _96, _114, _34, _127 };
}

static inline __attribute__((always_inline))
int _43(thread const _31& _40, thread const uint& _41, thread int& _42)
{
    int _139 = int(_41 >> _40._m3);
    int _145 = int(_41 & ((1u << _40._m3) - 1u)) * 1;
    int _158;
    if (_139 < _40._m0)
    {
        _158 = _40._m1 - _145;
    }
    else
    {
        _158 = 0;
    }
    _42 = _158;
    return (_139 * _40._m2) + _145;
}

static inline __attribute__((always_inline))
uint _24(thread const int& _23, const device _75& v_77)
{
    return v_77._m0[_23];
}

static inline __attribute__((always_inline))
uint _12(thread const spvUnsafeArray<uint, 1>& _11)
{
    return _11[0];
}

static inline __attribute__((always_inline))
void _51(thread const int& _48, thread const _31& _49, thread const bool& _50, const device _75& v_77, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_250)[2112])
{
    int _205;
    uint _217;
    spvUnsafeArray<uint, 1> _231;
    for (int _176 = 0; _176 < 8; _176++)
    {
        uint _185 = gl_LocalInvocationID.x + (uint(_176) * 256u);
        _31 _201 = _49;
        uint _203 = _185;
        int _206 = _43(_201, _203, _205);
        int _200 = _205;
        int _198 = _48 + _206;
        if (_200 <= 0)
        {
            continue;
        }
        if (_50)
        {
            _217 = v_77._m0[_198 / 1];
        }
        else
        {
            for (int _223 = 0; _223 < 1; _223++)
            {
                int _239 = _198 + min(_223, (_200 - 1));
                _231[_223] = _24(_239, v_77);
            }
            spvUnsafeArray<uint, 1> _244;
            _244 = _231;
            _217 = _12(_244);
        }
        v_250[_185 + (_185 / 32u)] = _217;
    }
}

static inline __attribute__((always_inline))
uint _20(thread const uint& _18, thread const int& _19)
{
    return _18;
}

static inline __attribute__((always_inline))
void _29(thread const int& _27, thread const uint& _28, device _85& v_87)
{
    v_87._m0[_27] = _28;
}

static inline __attribute__((always_inline))
void _59(thread const int& _54, thread const _31& _55, thread const uint& _56, thread const uint& _57, thread const bool& _58, device _85& v_87, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_250)[2112])
{
    int _283;
    spvUnsafeArray<uint, 1> _330;
    for (int _261 = 0; _261 < 8; _261++)
    {
        uint _269 = gl_LocalInvocationID.x + (uint(_261) * 256u);
        _31 _279 = _55;
        uint _281 = _269;
        int _284 = _43(_279, _281, _283);
        int _278 = _283;
        int _276 = _54 + _284;
        if (_278 <= 0)
        {
            continue;
        }
        uint _292 = (_269 & ((1u << _55._m3) - 1u)) * 1u;
        uint _300 = _292 / _56;
        uint _304 = _292 % _56;
        for (int _308 = 0; _308 < 1; _308++)
        {
            uint _316 = ((_269 >> _55._m3) + _300) + (_304 * _57);
            uint _327 = _316 / 1u;
            uint _339 = v_250[_327 + (_327 / 32u)];
            int _342 = int(_316 % 1u);
            _330[_308] = _20(_339, _342);
            uint _346 = _304;
            uint _347 = _346 + uint(1);
            _304 = _347;
            bool _345 = _347 == _56;
            _300 += uint(_345);
            _304 = _345 ? 0u : _304;
        }
        if (_58)
        {
            spvUnsafeArray<uint, 1> _364;
            _364 = _330;
            v_87._m0[_276 / 1] = _12(_364);
            continue;
        }
        for (int _369 = 0; _369 < min(1, _278); _369++)
        {
            int _383 = _276 + _369;
            uint _384 = _330[_369];
            _29(_383, _384, v_87);
        }
    }
}

static inline __attribute__((always_inline))
void _64(thread const int& _62, thread const int& _63, const device _75& v_77, device _85& v_87, constant _103& v_105, thread uint3& gl_LocalInvocationID, threadgroup uint (&v_250)[2112], thread uint3& gl_WorkGroupID, thread uint3& gl_NumWorkGroups)
{
    uint _392 = 1u << v_105._m3;
    uint _402;
    if (v_105._m7[0] == 1)
    {
        _402 = 4294967295u;
    }
    else
    {
        _402 = v_105._m6[1];
    }
    uint _396 = _402;
    uint _414;
    if (v_105._m7[0] == 1)
    {
        _414 = v_105._m6[1];
    }
    else
    {
        _414 = _392;
    }
    uint _410 = _414;
    uint _427 = gl_WorkGroupID.x * _392;
    for (uint _422 = _427; _422 < v_105._m6[0]; _422 += (gl_NumWorkGroups.x * _392))
    {
        int _437 = int(min(_392, (v_105._m6[0] - _422)));
        int _445 = _62 + (int(_422) * v_105._m7[0]);
        int _453 = _63 + (int(_422) * v_105._m8[0]);
        int _462 = v_105._m8[0];
        int _465 = v_105._m8[1];
        int _468 = _437;
        _31 _461 = _36(_462, _465, _468, v_105);
        int _472 = v_105._m7[0];
        int _475 = v_105._m7[1];
        int _478 = _437;
        _31 _471 = _36(_472, _475, _478, v_105);
        bool _489;
        if (false)
        {
            _489 = v_105._m5 != 0u;
        }
        else
        {
            _489 = false;
        }
        bool _495;
        if (_489)
        {
            _495 = (_437 % 1) == 0;
        }
        else
        {
            _495 = _489;
        }
        bool _481 = _495;
        if (_481)
        {
            int _500 = _453;
            _31 _502 = _461;
            bool _504 = true;
            _51(_500, _502, _504, v_77, gl_LocalInvocationID, v_250);
        }
        else
        {
            int _507 = _453;
            _31 _509 = _461;
            bool _511 = false;
            _51(_507, _509, _511, v_77, gl_LocalInvocationID, v_250);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (_481)
        {
            int _518 = _445;
            _31 _520 = _471;
            uint _522 = _396;
            uint _524 = _410;
            bool _526 = true;
            _59(_518, _520, _522, _524, _526, v_87, gl_LocalInvocationID, v_250);
        }
        else
        {
            int _529 = _445;
            _31 _531 = _471;
            uint _533 = _396;
            uint _535 = _410;
            bool _537 = false;
            _59(_529, _531, _533, _535, _537, v_87, gl_LocalInvocationID, v_250);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
}

kernel void gather4_channels(device _85& v_87 [[buffer(0)]], constant _103& v_105 [[buffer(2)]], const device _75& v_77 [[buffer(1)]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    threadgroup uint v_250[2112];
    for (uint _546 = gl_WorkGroupID.z; _546 < v_105._m2; _546 += gl_NumWorkGroups.z)
    {
        int _558 = v_105._m0;
        int _561 = v_105._m1;
        uint _564 = _546;
        for (int _566 = 2; (_566 < 8) && (_564 != 0u); _566++)
        {
            int _577 = int(_564 % v_105._m6[_566]);
            _564 /= v_105._m6[_566];
            _558 += (_577 * v_105._m7[_566]);
            _561 += (_577 * v_105._m8[_566]);
        }
        int _605 = _558;
        int _607 = _561;
        _64(_605, _607, v_77, v_87, v_105, gl_LocalInvocationID, v_250, gl_WorkGroupID, gl_NumWorkGroups);
    }
}

