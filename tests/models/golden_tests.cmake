# The fp64 oracles, the PyTorch goldens and the runner of bare blocks; runtime tests link these two libraries too.
add_library(zrt_reference STATIC ${CMAKE_CURRENT_LIST_DIR}/reference_math.cpp ${CMAKE_CURRENT_LIST_DIR}/gpt2_reference.cpp
            ${CMAKE_CURRENT_LIST_DIR}/llama_reference.cpp ${CMAKE_CURRENT_LIST_DIR}/expert_reference.cpp
            ${CMAKE_CURRENT_LIST_DIR}/bert_reference.cpp ${CMAKE_CURRENT_LIST_DIR}/reference_trainer.cpp
            ${CMAKE_CURRENT_LIST_DIR}/golden.cpp)
target_link_libraries(zrt_reference PUBLIC zrt_options nlohmann_json::nlohmann_json)
target_compile_definitions(zrt_reference PRIVATE ZRT_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")

zrt_test(models/reference LINK zrt_reference)

add_library(zrt_block_runner STATIC ${CMAKE_CURRENT_LIST_DIR}/block_runner.cpp
            ${CMAKE_CURRENT_LIST_DIR}/guarded_buffer.cpp ${CMAKE_CURRENT_LIST_DIR}/tensor_runner.cpp)
target_link_libraries(zrt_block_runner PUBLIC zrt_reference zrt::models zrt_catch_main)
zrt_test(models/gradient GPU models LEVELS PRODUCTS LINK zrt_block_runner)
zrt_test(models/experts GPU models LEVELS PRODUCTS LINK zrt_block_runner)
zrt_test(models/routing GPU kernels LINK zrt::models)
zrt_test(models/expert_rows GPU kernels LINK zrt::models)
zrt_test(models/expert_products GPU kernels LEVELS PRODUCTS CHIPS LINK zrt::models)
zrt_test(models/gpt2_dropout GPU models LEVELS PRODUCTS LINK zrt_block_runner)
zrt_test(models/curve GPU models LEVELS PRODUCTS LINK zrt_block_runner zrt::optimizer)
