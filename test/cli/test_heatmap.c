// Goal: a heatmap of any shape fits the width it is given and shows every layer; its picture holds
// every used expert once, in the right shade. Method: maps of random uses; columns of UTF-8 are
// counted, and the areas of the picture's paths are summed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka wants the four above first
#include <cmocka.h>

#include "cli/heatmap.h"
#include "gen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 60u
#define EXPERTS_MAX 600u

static uint64_t uses[LAYERS_MAX * EXPERTS_MAX];
static double spread[LAYERS_MAX];

static ps_heatmap random_map(ps_gen *gen)
{
    ps_heatmap map = {.title = "a <title> & more",
                      .layers = ps_gen_range(gen, 1, LAYERS_MAX),
                      .experts = ps_gen_range(gen, 1, EXPERTS_MAX),
                      .uses = uses,
                      .even = 100,
                      .is_whole = ps_gen_range(gen, 0, 1) == 0,
                      .entropy = spread,
                      .gini = spread,
                      .point_count = 2,
                      .points = {{1, 0.5, NAN}, {2, 1, 0.25}}};
    for (uint32_t i = 0; i < map.layers * map.experts; i++) {
        uses[i] = (uint64_t)1 << ps_gen_range(gen, 0, 14);
        uses[i] = ps_gen_range(gen, 0, 3) == 0 ? 0 : uses[i];
    }
    return map;
}

static void test_levels_are_powers_of_two(void **state)
{
    (void)state;
    const ps_heatmap map = {.even = 64};
    static const uint64_t USES[] = {0, 1, 8, 16, 32, 64, 128, 256, 512, 1024, UINT64_MAX};
    static const uint32_t LEVELS[] = {0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8};
    for (size_t i = 0; i < sizeof USES / sizeof USES[0]; i++) {
        assert_int_equal(LEVELS[i], ps_heatmap_level(&map, USES[i]));
    }
}

static uint32_t columns_of(const char *line, size_t length)
{
    uint32_t columns = 0;
    for (size_t i = 0; i < length; i++) {
        columns += ((unsigned char)line[i] & 0xc0) != 0x80;
    }
    return columns;
}

static void test_lines_fit(void **state)
{
    (void)state;
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 200; round++) {
        const ps_heatmap map = random_map(&gen);
        const uint32_t width = ps_gen_range(&gen, 0, 250);
        char *text = NULL;
        size_t length = 0;
        FILE *file = open_memstream(&text, &length);
        assert_non_null(file);
        ps_heatmap_text(&map, width, file);
        (void)fclose(file);
        uint32_t layers = 0;
        uint32_t first_columns = 0;
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
            const uint32_t columns = columns_of(line, strcspn(line, "\n"));
            if (strncmp(line + 5, "|", 1) == 0) {
                assert_true(columns <= (width < 40 ? 40 : width));
                first_columns = layers++ == 0 ? columns : first_columns;
                assert_int_equal(first_columns, columns);
            }
        }
        assert_int_equal(map.layers, layers);
        free(text);
    }
}

static void test_pictures_hold_every_expert_once(void **state)
{
    (void)state;
    static uint8_t shown[LAYERS_MAX * EXPERTS_MAX];
    ps_gen gen = ps_gen_start();
    for (int round = 0; round < 20; round++) {
        const ps_heatmap map = random_map(&gen);
        ps_buffer svg = {0};
        assert_int_equal(PS_OK, ps_heatmap_svg(&map, &svg));
        assert_non_null(strstr(svg.data, "a &lt;title&gt; &amp; more"));
        assert_null(strstr(svg.data, "nan"));
        memset(shown, 0, sizeof shown);
        uint32_t level = 0;
        const char *path = svg.data;
        while ((path = strstr(path, "<path")) != NULL) {
            level++;
            const char *at = strstr(path, " d=\"") + 4;
            uint32_t x, y, width, height;
            int used = 0;
            // Cells are as wide as the narrowest; a map's width over its experts is that of all.
            uint32_t cell = 1024 / map.experts;
            cell = cell < 2 ? 2 : cell > 16 ? 16 : cell;
            while (sscanf(at, "M%u %uh%uv%uh-%*uz%n", &x, &y, &width, &height, &used) == 4) {
                for (uint32_t e = (x - 40) / cell; e < (x - 40 + width) / cell; e++) {
                    shown[(y - 40) / height * map.experts + e] += (uint8_t)level;
                }
                at += used;
            }
            assert_int_equal('"', *at);
            path++;
        }
        assert_int_equal(PS_HEATMAP_LEVELS, level);
        for (uint32_t i = 0; i < map.layers * map.experts; i++) {
            assert_int_equal(ps_heatmap_level(&map, uses[i]), shown[i]);
        }
        ps_buffer_deinit(&svg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_are_powers_of_two),
        cmocka_unit_test(test_lines_fit),
        cmocka_unit_test(test_pictures_hold_every_expert_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
