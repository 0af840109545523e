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

struct _47
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

struct _83
{
    uint _m0[1];
};

struct _93
{
    uint _m0[1];
};

constant uint3 gl_WorkGroupSize [[maybe_unused]] = uint3(256u, 1u, 1u);

static inline __attribute__((always_inline))
int _19(thread const int& _16, thread const uint& _17, thread const uint& _18, constant _47& v_49)
{
    return (_16 + (int(_17) * v_49._m7[0])) + (int(_18) * v_49._m7[1]);
}

static inline __attribute__((always_inline))
int _33(thread const int& _30, thread const uint& _31, thread const uint& _32, constant _47& v_49)
{
    int _106;
    if (v_49._m7[0] == 1)
    {
        int _110 = _30;
        uint _112 = 0u;
        uint _113 = _32;
        _106 = _19(_110, _112, _113, v_49) & 0;
    }
    else
    {
        _106 = 0;
    }
    return (int(_31) * 1) - _106;
}

static inline __attribute__((always_inline))
int _14(thread const int& _11, thread const uint& _12, thread const uint& _13, constant _47& v_49)
{
    return (_11 + (int(_12) * v_49._m8[0])) + (int(_13) * v_49._m8[1]);
}

static inline __attribute__((always_inline))
uint _23(thread const int& _22, const device _83& v_85)
{
    return v_85._m0[_22];
}

static inline __attribute__((always_inline))
void _28(thread const int& _26, thread const uint& _27, device _93& v_95)
{
    v_95._m0[_26] = _27;
}

static inline __attribute__((always_inline))
void _38(thread const int& _36, thread const int& _37, constant _47& v_49, const device _83& v_85, device _93& v_95, thread uint3& gl_WorkGroupID, thread uint3& gl_LocalInvocationID, thread uint3& gl_NumWorkGroups)
{
    uint _122 = 8u - v_49._m3;
    uint _128 = v_49._m3 + v_49._m4;
    uint _141 = (_122 + 2u) - v_49._m4;
    uint _142 = (v_49._m6[0] + 0u) / 1u;
    int _149 = int(v_49._m6[0]) - 1;
    uint _169 = (gl_WorkGroupID.y << _141) + (gl_LocalInvocationID.x >> v_49._m3);
    spvUnsafeArray<spvUnsafeArray<uint, 1>, 4> _253;
    for (uint _135 = _141, _154 = _169; _154 < v_49._m6[1]; _154 += (gl_NumWorkGroups.y << _135))
    {
        uint _191 = (gl_WorkGroupID.x << _128) + (gl_LocalInvocationID.x & ((1u << v_49._m3) - 1u));
        for (uint _179 = _191; _179 < _142; _179 += (gl_NumWorkGroups.x << _128))
        {
            for (uint _200 = 0u; _200 < 4u; _200++)
            {
                uint _209 = _179 + ((_200 & ((1u << v_49._m4) - 1u)) << v_49._m3);
                uint _221 = min((_154 + ((_200 >> v_49._m4) << _122)), (v_49._m6[1] - 1u));
                int _235 = _36;
                uint _237 = _209;
                uint _239 = _221;
                int _234 = _33(_235, _237, _239, v_49);
                for (int _242 = 0; _242 < 1; _242++)
                {
                    int _262 = _37;
                    uint _264 = uint(clamp(_234 + _242, 0, _149));
                    uint _265 = _221;
                    int _268 = _14(_262, _264, _265, v_49);
                    _253[_200][_242] = _23(_268, v_85);
                }
            }
            for (uint _275 = 0u; _275 < 4u; _275++)
            {
                uint _283 = _179 + ((_275 & ((1u << v_49._m4) - 1u)) << v_49._m3);
                uint _295 = _154 + ((_275 >> v_49._m4) << _122);
                int _305 = _36;
                uint _307 = _283;
                uint _309 = _295;
                int _304 = _33(_305, _307, _309, v_49);
                if (_295 >= v_49._m6[1])
                {
                    continue;
                }
                for (int _319 = 0; _319 < 1; _319++)
                {
                    bool _330 = (_304 + _319) >= 0;
                    bool _338;
                    if (_330)
                    {
                        _338 = (_304 + _319) <= _149;
                    }
                    else
                    {
                        _338 = _330;
                    }
                    if (_338)
                    {
                        int _345 = _36;
                        uint _347 = uint(_304 + _319);
                        uint _348 = _295;
                        int _353 = _19(_345, _347, _348, v_49);
                        uint _354 = _253[_275][_319];
                        _28(_353, _354, v_95);
                    }
                }
            }
        }
    }
}

kernel void gather4(constant _47& v_49 [[buffer(2)]], device _93& v_95 [[buffer(0)]], const device _83& v_85 [[buffer(1)]], uint3 gl_WorkGroupID [[threadgroup_position_in_grid]], uint3 gl_LocalInvocationID [[thread_position_in_threadgroup]], uint3 gl_NumWorkGroups [[threadgroups_per_grid]])
{
    for (uint _375 = gl_WorkGroupID.z; _375 < v_49._m2; _375 += gl_NumWorkGroups.z)
    {
        int _388 = v_49._m0;
        int _391 = v_49._m1;
        uint _394 = _375;
        for (int _396 = 2; (_396 < 8) && (_394 != 0u); _396++)
        {
            int _407 = int(_394 % v_49._m6[_396]);
            _394 /= v_49._m6[_396];
            _388 += (_407 * v_49._m7[_396]);
            _391 += (_407 * v_49._m8[_396]);
        }
        int _435 = _388;
        int _437 = _391;
        _38(_435, _437, v_49, v_85, v_95, gl_WorkGroupID, gl_LocalInvocationID, gl_NumWorkGroups);
    }
}

