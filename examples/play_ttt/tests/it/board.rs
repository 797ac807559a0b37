//! The rules of the game.

use play_ttt::{Board, Mark};

fn board(cells: &str) -> Board {
    let mut board = Board::default();
    for (cell, mark) in cells.chars().enumerate() {
        match mark {
            'X' => board.place(cell, Mark::X).unwrap(),
            'O' => board.place(cell, Mark::O).unwrap(),
            _ => {}
        }
    }
    board
}

#[test]
fn every_row_column_and_diagonal_wins_for_either_mark() {
    let drawn = [
        "###......",
        "...###...",
        "......###",
        "#..#..#..",
        ".#..#..#.",
        "..#..#..#",
        "#...#...#",
        "..#.#.#..",
    ];
    for mark in [Mark::X, Mark::O] {
        for cells in drawn {
            let board = board(&cells.replace('#', &mark.to_string()));
            let line: Vec<usize> = cells.match_indices('#').map(|(cell, _)| cell).collect();
            let (winner, found) = board.won().unwrap();
            assert_eq!((winner, found.to_vec()), (mark, line), "\n{board}");
            assert!(board.is_over());
        }
    }
}

/// All ways three cells can be marked: eight of them win, and no other.
#[test]
fn nothing_but_the_eight_lines_wins() {
    let mut winning = 0;
    for marked in (0_u32..512).filter(|marked| marked.count_ones() == 3) {
        let cells: String = (0..9).map(|cell| if marked & (1 << cell) == 0 { '.' } else { 'X' }).collect();
        winning += u32::from(board(&cells).won().is_some());
    }
    assert_eq!(winning, 8);
}

#[test]
fn a_full_board_without_a_line_is_over_and_nobodys() {
    let board = board("XOXXOOOXX");
    assert_eq!((board.won(), board.is_over()), (None, true));
    assert!(!self::board("XOXXOOOX.").is_over());
}

#[test]
fn a_cell_is_taken_once() {
    let mut board = board("XOXXO..XO");
    assert_eq!(board.place(4, Mark::X).unwrap_err(), "cell 4 is taken; pick one of 5, 6");
    assert!(board.place(9, Mark::X).is_err());
    board.place(5, Mark::X).unwrap();
    assert_eq!(board.free(), [6]);
}

#[test]
fn a_board_is_nine_texts_on_the_wire_and_a_drawing_for_people() {
    let board = board("X...O....");
    let json = serde_json::to_value(board).unwrap();
    assert_eq!(json, serde_json::json!(["X", "", "", "", "O", "", "", "", ""]));
    assert_eq!(serde_json::from_value::<Board>(json).unwrap(), board);
    assert_eq!(board.to_string(), " X | 1 | 2 \n---+---+---\n 3 | O | 5 \n---+---+---\n 6 | 7 | 8 ");
}
