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

struct _83
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

struct _118
{
    ushort _m0[1];
};

struct _129
{
    ushort _m0[1];
};

struct _370
{
    uint _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

struct _518
{
    uint _m0[1];
};

static inline __attribute__((always_inline))
int _26(thread const int& _23, thread const uint& _24, thread const uint& _25, constant _83& v_85)
{
    return (_23 + (int(_24) * v_85._m7[0])) + (int(_25) * v_85._m7[1]);
}

static inline __attribute__((always_inline))
int _40(thread const int& _37, thread const uint& _38, thread const uint& _39, constant _83& v_85)
{
    int _142;
    if (v_85._m7[0] == 1)
    {
        int _145 = _37;
        uint _147 = 0u;
        uint _148 = _39;
        _142 = _26(_145, _147, _148, v_85) & 1;
    }
    else
    {
        _142 = 0;
    }
    return (int(_38) * 2) - _142;
}

static inline __attribute__((always_inline))
int _21(thread const int& _18, thread const uint& _19, thread const uint& _20, constant _83& v_85)
{
    return (_18 + (int(_19) * v_85._m8[0])) + (int(_20) * v_85._m8[1]);
}

static inline __attribute__((always_inline))
uint _30(thread const int& _29, const device _118& v_120)
{
    return uint(v_120._m0[_29]);
}

static inline __attribute__((always_inline))
uint _12(thread const spvUnsafeArray<uint, 2>& _11)
{
    uint _47 = 0u;
    for (int _49 = 0; _49 < 2; _49++)
    {
        _47 |= (_11[_49] << (uint(_49) * 16u));
    }
    return _47;
}

static inline __attribute__((always_inline))
void _35(thread const int& _33, thread const uint& _34, device _129& v_131)
{
    v_131._m0[_33] = ushort(_34);
}

static inline __attribute__((always_inline))
void _45(thread const int& _43, thread const int& _44, constant _83& v_85, const device _118& v_120, device _129& v_131, thread uint3& gl_WorkGroupID, thread uint3& gl_LocalInvocationID, device _370& v_372, thread uint3& gl_NumWorkGroups)
{
    uint _157 = 8u - v_85._m3;
    uint _163 = v_85._m3 + v_85._m4;
    uint _175 = (_157 + 2u) - v_85._m4;
    uint _176 = (v_85._m6[0] + 2u) / 2u;
    int _182 = int(v_85._m6[0]) - 1;
    uint _203 = (gl_WorkGroupID.y << _175) + (gl_LocalInvocationID.x >> v_85._m3);
    spvUnsafeArray<spvUnsafeArray<uint, 2>, 4> _286;
    for (uint _170 = _175, _187 = _203; _187 < v_85._m6[1]; _187 += (gl_NumWorkGroups.y << _170))
    {
        uint _225 = (gl_WorkGroupID.x << _163) + (gl_LocalInvocationID.x & ((1u << v_85._m3) - 1u));
        for (uint _213 = _225; _213 < _176; _213 += (gl_NumWorkGroups.x << _163))
        {
            for (uint _234 = 0u; _234 < 4u; _234++)
            {
                uint _243 = _213 + ((_234 & ((1u << v_85._m4) - 1u)) << v_85._m3);
                uint _255 = min((_187 + ((_234 >> v_85._m4) << _157)), (v_85._m6[1] - 1u));
                int _269 = _43;
                uint _271 = _243;
                uint _273 = _255;
                int _268 = _40(_269, _271, _273, v_85);
                for (int _276 = 0; _276 < 2; _276++)
                {
                    int _295 = _44;
                    uint _297 = uint(clamp(_268 + _276, 0, _182));
                    uint _298 = _255;
                    int _301 = _21(_295, _297, _298, v_85);
                    _286[_234][_276] = _30(_301, v_120);
                }
            }
            for (uint _308 = 0u; _308 < 4u; _308++)
            {
                uint _316 = _213 + ((_308 & ((1u << v_85._m4) - 1u)) << v_85._m3);
                uint _328 = _187 + ((_308 >> v_85._m4) << _157);
                int _338 = _43;
                uint _340 = _316;
                uint _342 = _328;
                int _337 = _40(_338, _340, _342, v_85);
                if (_328 >= v_85._m6[1])
                {
                    continue;
                }
                bool _357 = (v_85._m7[0] == 1) && (_337 >= 0);
                bool _366;
                if (_357)
                {
                    _366 = (_337 + 2) <= int(v_85._m6[0]);
                }
                else
                {
                    _366 = _357;
                }
                if (_366)
                {
                    int _375 = _43;
                    uint _377 = uint(_337);
                    uint _378 = _328;
                    spvUnsafeArray<uint, 2> _383;
                    _383 = _286[_308];
                    v_372._m0[_26(_375, _377, _378, v_85) / 2] = _12(_383);
                    continue;
                }
                for (int _390 = 0; _390 < 2; _390++)
                {
                    bool _401 = (_337 + _390) >= 0;
                    bool _409;
                    if (_401)
                    {
                        _409 = (_337 + _390) <= _182;
                    }
                    else
                    {
                        _409 = _401;
                    }
                    if (_409)
                    {
                        int _416 = _43;
                        uint _418 = uint(_337 + _390);
                        uint _419 = _328;
                        int _424 = _26(_416, _418, _419, v_85);
                        uint _425 = _286[_308][_390];
                        _35(_424, _425, v_131);
                    }
                }
            }
        }
    }
}

kernel void gather2(constant _83& v_85 [[buffer(2)]], device void* spvBufferAliasSet0Binding0 [[buffer(0)]], const device _118& v_120 [[buffer(1)]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    device auto& v_131 = *(device _129*)spvBufferAliasSet0Binding0;
    device auto& v_372 = *(device _370*)spvBufferAliasSet0Binding0;
    for (uint _446 = gl_WorkGroupID.z; _446 < v_85._m2; _446 += gl_NumWorkGroups.z)
    {
        int _458 = v_85._m0;
        int _461 = v_85._m1;
        uint _464 = _446;
        for (int _466 = 2; (_466 < 8) && (_464 != 0u); _466++)
        {
            int _477 = int(_464 % v_85._m6[_466]);
            _464 /= v_85._m6[_466];
            _458 += (_477 * v_85._m7[_466]);
            _461 += (_477 * v_85._m8[_466]);
        }
        int _505 = _458;
        int _507 = _461;
        _45(_505, _507, v_85, v_120, v_131, gl_WorkGroupID, gl_LocalInvocationID, v_372, gl_NumWorkGroups);
    }
}

