# Sourced: the fuzz targets by what they run in, and where each is.
HOT="rows"                                                           # C: binlog_core._core._rows_target
LOOPS="jsonb doubles text resync packed_integers columns"            # C: binlog_core._core._loops
INSTRUMENTED="table_map packets result_sets wire log header_lengths fragments ddl_log splits innodb_binlog json_diffs encrypted conditions"    # Python over compiled code
# Mostly Python: atheris, where it has a wheel.
PLAIN="event packed compressed_columns gtid_sets gtid_texts create_table statements positions index_files log_indexes timelines manifests"

module_of() {  # module_of TARGET
    if [[ " $HOT " == *" $1 "* ]]; then
        echo binlog_core._core._rows_target
    elif [[ " $LOOPS " == *" $1 "* ]]; then
        echo binlog_core._core._loops
    else
        echo entry_points
    fi
}

largest() {  # largest TARGET: inputs of so many bytes
    case $1 in
        innodb_binlog) echo 8000 ;;
        log | encrypted) echo 6000 ;;
        wire | header_lengths | fragments | splits | ddl_log) echo 1500 ;;
        rows) echo 500 ;;
        text | packed_integers) echo 100 ;;
        *) echo 300 ;;
    esac
}
